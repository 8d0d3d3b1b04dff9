#if Server
  internal import ArgumentParser
  internal import BlobCacheServer
  internal import Posix
  internal import SystemPackage

  /// The options for access control and encryption.
  struct SafetyOptions: ParsableArguments {
    @Flag(help: "Listen at an address that other machines reach without TLS, or let everybody there change blobs.")
    var insecure = false

    @Option(
      name: .customLong("host"), parsing: .unconditionalSingleValue,
      help: ArgumentHelp(
        "Answer to this name as well; else to addresses and localhost alone. May be given again.", valueName: "name"))
    var hosts: [String] = []

    @Option(
      name: .customLong("tls-certificate"), parsing: .unconditional,
      help: ArgumentHelp("Speak TLS with the certificate, or chain of them, in this PEM file.", valueName: "file"))
    var certificate: FilePath?

    @Option(
      name: .customLong("tls-key"), parsing: .unconditional,
      help: ArgumentHelp("The certificate's private key: a PEM file that others may not read.", valueName: "file"))
    var key: FilePath?

    @Option(
      name: .customLong("tls-client-ca"), parsing: .unconditional,
      help: ArgumentHelp(
        "Take clients alone that have a certificate signed by one in this PEM file.", valueName: "file"))
    var clientAuthority: FilePath?

    @Option(
      parsing: .unconditional,
      help: ArgumentHelp(
        "Ask for tokens, which are in this file; blobcache-serve token NAME makes one. Else all is allowed.",
        valueName: "file"))
    var tokens: FilePath?

    @Option(
      name: .customLong("allow-uid"), parsing: .unconditionalSingleValue,
      help: ArgumentHelp(
        "At a Unix socket, answer this user as well as the server's own. May be given again.", valueName: "uid"))
    var users: [UInt32] = []

    @Flag(help: "Refuse requests that change something.")
    var readOnly = false
  }

  extension SafetyOptions {
    /// - Throws: `ValidationError` if the address requires an option that is missing.
    func check(_ listen: ListenAddress) throws {
      guard (certificate == nil) == (key == nil) else {
        throw ValidationError("--tls-certificate and --tls-key belong together.")
      }
      guard clientAuthority == nil || certificate != nil else {
        throw ValidationError("--tls-client-ca needs --tls-certificate and --tls-key.")
      }
      guard users.isEmpty || !listen.isOnNetwork else {
        throw ValidationError("--allow-uid is for --listen unix:PATH: no other connection tells its user.")
      }
      guard !listen.isLocal, !insecure else { return }
      guard certificate != nil else {
        throw ValidationError(
          """
          Other machines reach \(listen.address), and what is sent is not encrypted: say --tls-certificate and \
          --tls-key, or --insecure if that is right.
          """)
      }
      guard tokens != nil || clientAuthority != nil || readOnly else {
        throw ValidationError(
          """
          Other machines reach \(listen.address), and may change every blob: say --tokens, --tls-client-ca or \
          --read-only, or --insecure if that is right.
          """)
      }
    }

    func encryption() throws -> Encryption? {
      guard let certificate, let key else { return nil }
      return try Encryption(.init(certificate: certificate, key: key, clientAuthority: clientAuthority))
    }

    func accessControl() throws -> AccessControl {
      AccessControl(
        tokens: try tokens.map(TokenFile.tokens(at:)),
        users: users.isEmpty ? nil : Set(users + [Credentials.user.rawValue]))
    }
  }
#endif
