public import SystemPackage

#if Remote
  internal import NIOSSL
#endif

/// The certificates that an engine trusts and presents, as PEM files.
public struct TransportSecurity: Hashable, Sendable {
  /// The authorities that sign server certificates, or `nil` for the system's authorities.
  public var authority: FilePath?
  /// The client certificate, followed by its intermediate certificates.
  public var certificate: FilePath?
  /// The private key of the certificate, without a passphrase.
  public var key: FilePath?

  /// Creates settings for TLS.
  ///
  /// - Parameters:
  ///   - authority: The authorities that sign server certificates, or `nil` for the system's authorities.
  ///   - certificate: The client certificate, or `nil` to present none.
  ///   - key: The certificate's private key, without a passphrase.
  public init(authority: FilePath? = nil, certificate: FilePath? = nil, key: FilePath? = nil) {
    self.authority = authority
    self.certificate = certificate
    self.key = key
  }
}

#if Remote
  extension TransportSecurity {
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
