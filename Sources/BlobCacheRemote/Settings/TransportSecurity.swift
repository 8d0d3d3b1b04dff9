public import SystemPackage

#if Remote
  internal import NIOSSL
#endif

/// Whose certificates an engine believes, and which one it shows. All files are in PEM form.
public struct TransportSecurity: Hashable, Sendable {
  /// Those who sign servers' certificates; nil for the system's.
  public var authority: FilePath?
  /// The certificate to show to the server, and behind it those that lead to one that it knows.
  public var certificate: FilePath?
  /// The private key of the certificate, without a passphrase.
  public var key: FilePath?

  /// - Parameters:
  ///   - authority: those who sign servers' certificates; nil for the system's.
  ///   - certificate: the certificate to show to the server; nil for none.
  ///   - key: its private key, without a passphrase.
  public init(authority: FilePath? = nil, certificate: FilePath? = nil, key: FilePath? = nil) {
    self.authority = authority
    self.certificate = certificate
    self.key = key
  }
}

#if Remote
  extension TransportSecurity {
    /// - Throws: `RemoteSettingError` for a file that cannot be read or is not what it should be.
    func configuration() throws(RemoteSettingError) -> TLSConfiguration {
      var configuration = TLSConfiguration.makeClientConfiguration()
      configuration.minimumTLSVersion = .tlsv12
      if let authority {
        configuration.trustRoots = .certificates(try Self.certificates(at: authority, "ca"))
      }
      guard (certificate == nil) == (key == nil) else {
        throw RemoteSettingError("cert", "cert and key are given together")
      }
      if let certificate, let key {
        try SecretFile.check(key)
        configuration.certificateChain = try Self.certificates(at: certificate, "cert").map { .certificate($0) }
        do {
          configuration.privateKey = .privateKey(try NIOSSLPrivateKey(file: key.string, format: .pem))
        } catch {
          throw RemoteSettingError("key", "\(key) is no private key in PEM form that can be read: \(error)")
        }
      }
      return configuration
    }

    private static func certificates(
      at path: FilePath, _ setting: String
    ) throws(RemoteSettingError) -> [NIOSSLCertificate] {
      do {
        let certificates = try NIOSSLCertificate.fromPEMFile(path.string)
        guard !certificates.isEmpty else { throw NIOSSLError.failedToLoadCertificate }
        return certificates
      } catch {
        throw RemoteSettingError(setting, "\(path) has no certificate in PEM form that can be read: \(error)")
      }
    }
  }
#endif
