#if Server
  internal import Locks
  internal import NIOSSL
  public import SystemPackage

  #if canImport(Darwin)
    internal import Darwin
  #elseif canImport(Glibc)
    internal import Glibc
  #elseif canImport(Musl)
    internal import Musl
  #elseif canImport(Android)
    internal import Android
  #endif

  /// The TLS 1.2 and 1.3 configuration of a server, with its certificate and the authority for client certificates.
  ///
  /// Instances can be used from any thread.
  public final class Encryption: Sendable {
    /// The paths of the files in PEM format.
    public struct Files: Hashable, Sendable {
      /// The server's certificate, followed by its intermediate certificates.
      public var certificate: FilePath
      /// The private key, without a passphrase. Other users must not be able to read it.
      public var key: FilePath
      /// The authorities that sign client certificates, or `nil` if clients need no certificate.
      public var clientAuthority: FilePath?

      public init(certificate: FilePath, key: FilePath, clientAuthority: FilePath? = nil) {
        self.certificate = certificate
        self.key = key
        self.clientAuthority = clientAuthority
      }
    }

    private struct Content {
      let context: NIOSSLContext
      let warnings: [SecretFileError]
    }

    public let files: Files
    private let current: Lock<Content>

    /// Reads the files and creates a configuration.
    ///
    /// - Parameter files: The paths of the files.
    /// - Throws: `SecretFileError` for a file that cannot be read or has invalid content, for a certificate of the
    ///   server that has expired or is not valid yet, for a key of another certificate, and for a key that other users
    ///   can read.
    public init(_ files: Files) throws(SecretFileError) {
      self.files = files
      current = Lock(try Self.content(files))
    }

    /// Reads the files again, for new connections.
    ///
    /// - Throws: The same errors as `init`. The previous configuration then remains in use.
    public func reload() throws(SecretFileError) {
      let content = try Self.content(files)
      current.withLock { $0 = content }
    }

    /// The intermediate certificates and authorities that have expired or are not valid yet.
    ///
    /// They are no reason to stop, because a file may contain a retired certificate beside its successor.
    public var warnings: [SecretFileError] { current.withLock { $0.warnings } }

    func makeHandler() -> NIOSSLServerHandler { NIOSSLServerHandler(context: current.withLock { $0.context }) }
  }

  extension Encryption {
    private static func content(_ files: Files) throws(SecretFileError) -> Content {
      let chain = try certificates(at: files.certificate)
      if let fault = fault(of: chain[0], at: files.certificate) { throw fault }
      var warnings = chain.dropFirst().compactMap { fault(of: $0, at: files.certificate) }
      let key = try key(at: files.key)
      var configuration = TLSConfiguration.makeServerConfiguration(
        certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
      configuration.minimumTLSVersion = .tlsv12
      configuration.applicationProtocols = ["http/1.1"]
      if let authority = files.clientAuthority {
        let authorities = try certificates(at: authority)
        warnings += authorities.compactMap { fault(of: $0, at: authority) }
        configuration.trustRoots = .certificates(authorities)
        configuration.certificateVerification = .noHostnameVerification
      }
      do {
        return Content(context: try NIOSSLContext(configuration: configuration), warnings: warnings)
      } catch {
        throw SecretFileError(
          files.key,
          "it is not the key of the certificate in \(files.certificate); name the two that were made together")
      }
    }

    private static func certificates(at path: FilePath) throws(SecretFileError) -> [NIOSSLCertificate] {
      let text = try SecretFile.text(at: path, isSecret: false)
      guard let certificates = try? NIOSSLCertificate.fromPEMBytes(Array(text.utf8)), !certificates.isEmpty else {
        throw SecretFileError(path, "it has no certificate in PEM form, which begins with -----BEGIN CERTIFICATE-----")
      }
      return certificates
    }

    private static func fault(of certificate: NIOSSLCertificate, at path: FilePath) -> SecretFileError? {
      let now = time(nil)
      if certificate.notValidAfter < now {
        return SecretFileError(path, "the certificate has expired; have it renewed")
      }
      guard certificate.notValidBefore > now else { return nil }
      return SecretFileError(path, "the certificate is not valid yet; is the clock right?")
    }

    private static func key(at path: FilePath) throws(SecretFileError) -> NIOSSLPrivateKey {
      let text = try SecretFile.text(at: path)
      do {
        return try NIOSSLPrivateKey(bytes: Array(text.utf8), format: .pem)
      } catch {
        throw SecretFileError(path, "it has no private key in PEM form without a passphrase")
      }
    }
  }
#endif
