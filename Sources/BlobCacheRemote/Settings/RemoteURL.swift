internal import TextFormats

#if Remote
  public import BlobCache

  /// A URL without secrets that identifies a remote engine and a namespace in it: Spec/Remote.md, *URLs*.
  ///
  ///     s3://BUCKET/NAMESPACE?endpoint=https://HOST:PORT&region=REGION&style=path
  ///     https://HOST:PORT/PATH?namespace=NAMESPACE&token-file=FILE
  ///     valkeys://USER@HOST:PORT,HOST:PORT/DATABASE?namespace=NAMESPACE&password-file=FILE
  public struct RemoteURL: Sendable {
    enum Address {
      case s3(S3Engine.Settings)
      case http(HTTPEngine.Settings)
      case valkey(ValkeyEngine.Settings)
    }

    /// The namespace of the records in the engine, which is `blobcache` by default.
    public let namespace: RemoteNamespace
    private let address: Address

    /// Parses a URL, without connecting to a server or reading a file.
    ///
    /// - Parameter text: The URL.
    /// - Throws: `RemoteSettingError` for an unknown scheme or option, a password, an invalid value, and unencrypted
    ///   HTTP to another machine without `insecure=true`.
    public init(_ text: String) throws(RemoteSettingError) {
      try self.init(text) { ProcessInfo.processInfo.environment[$0] }
    }

    init(_ text: String, variable: (String) -> String?) throws(RemoteSettingError) {
      guard let colon = text.firstRange(of: "://"), !text.contains("#") else {
        throw RemoteSettingError(
          "URL", "it begins with s3://, https://, http://, valkeys:// or valkey://, and has no fragment")
      }
      let scheme = text[..<colon.lowerBound].lowercased()
      let halves = text[colon.upperBound...].split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
      let query = halves.count > 1 ? halves[1] : ""
      var place = halves[0]
      let authority = place.prefix { $0 != "/" }
      var user: Substring?
      if let at = authority.lastIndex(of: "@") {
        user = authority[..<at]
        place = place[place.index(after: at)...]
        guard user.flatMap({ PercentEncoding.decoded($0) })?.contains(":") != true else {
          throw RemoteSettingError("URL", "it has a password, which others would read; use password-file=FILE")
        }
      }
      // A password with `/` or `?` would appear to be part of host, path or query. Messages must not contain these.
      guard !place.contains("@"), !query.contains("@") else {
        throw RemoteSettingError(
          "URL", "an @ stands where none may: a password goes to password-file=FILE, and an @ is written %40")
      }
      switch scheme {
      case "s3":
        guard user == nil else { throw RemoteSettingError("URL", "an s3 URL has no user; use profile=NAME") }
        (address, namespace) = try Self.s3(place, query, variable)
      case "http", "https": (address, namespace) = try Self.http(scheme, place, query, user: user)
      case "valkey", "valkeys", "redis", "rediss":
        (address, namespace) = try Self.valkey(
          place, query, user: user, isEncrypted: ["valkeys", "rediss"].contains(scheme))
      default:
        throw RemoteSettingError(
          "URL", "there is no engine for \(scheme)://; those are s3, https, http, valkeys and valkey")
      }
    }

    /// Creates the engine without connecting to the server.
    ///
    /// - Throws: `RemoteSettingError` for files that cannot be used.
    public func makeEngine() throws(RemoteSettingError) -> any RemoteEngine {
      switch address {
      case .s3(let settings): try S3Engine(settings)
      case .http(let settings): try HTTPEngine(settings)
      case .valkey(let settings): try ValkeyEngine(settings)
      }
    }
  }

  extension RemoteURL {
    static let common: Set = ["ca", "cert", "key", "insecure", "naming"]

    private static func s3(
      _ place: Substring, _ query: some StringProtocol, _ variable: (String) -> String?
    ) throws(RemoteSettingError) -> (Address, RemoteNamespace) {
      let options = try URLOptions(
        query, known: common.union(["endpoint", "region", "style", "profile", "credentials-file", "checksums"]))
      let parts = place.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
      var settings = S3Engine.Settings(bucket: String(parts[0]))
      if options["profile"] != nil || options["credentials-file"] != nil {
        settings.credentials = SharedFileCredentials(
          options["credentials-file"].map { FilePath($0) }, profile: options["profile"])
      }
      if let endpoint = options["endpoint"] { settings.endpoint = try HTTPEndpoint(endpoint) }
      settings.region =
        options["region"] ?? variable("AWS_REGION")?.ifNotEmpty ?? variable("AWS_DEFAULT_REGION")?.ifNotEmpty
        ?? "us-east-1"
      if let text = options["style"] {
        guard let style = S3Engine.Style(rawValue: text) else {
          throw RemoteSettingError("style", "it is path or host, and not \(text)")
        }
        settings.style = style
      }
      if options["checksums"] != nil { settings.sendsChecksums = try options.isTrue("checksums") }
      settings.security = try security(options, isEncrypted: settings.endpoint?.isEncrypted != false)
      settings.allowsPlainHTTP = try options.isTrue("insecure")
      _ = try settings.place()
      return (.s3(settings), try namespace(parts.count > 1 ? String(parts[1]) : "", options))
    }

    private static func http(
      _ scheme: String, _ place: Substring, _ query: some StringProtocol, user: Substring?
    ) throws(RemoteSettingError) -> (Address, RemoteNamespace) {
      let options = try URLOptions(query, known: common.union(["token-file", "password-file", "namespace", "names"]))
      var settings = HTTPEngine.Settings(try HTTPEndpoint("\(scheme)://\(place)"))
      switch (user, options["password-file"], options["token-file"]) {
      case (nil, nil, nil): break
      case (nil, nil, let file?): settings.credential = .bearer(.file(FilePath(file)))
      case (let user?, let file?, nil):
        guard let user = PercentEncoding.decoded(user) else {
          throw RemoteSettingError("URL", "the user has a wrong escape")
        }
        settings.credential = .basic(user: user, password: .file(FilePath(file)))
      default:
        throw RemoteSettingError(
          "password-file", "it goes with a user, as in https://USER@HOST; token-file goes without")
      }
      settings.security = try security(options, isEncrypted: settings.endpoint.isEncrypted)
      settings.allowsPlainHTTP = try options.isTrue("insecure")
      if let text = options["names"] {
        guard let names = HTTPNames(rawValue: text) else {
          throw RemoteSettingError("names", "it is path or sha256, and not \(text)")
        }
        settings.names = names
      }
      try settings.check()
      return (.http(settings), try namespace(options["namespace"] ?? "", options))
    }

    private static func security(
      _ options: URLOptions, isEncrypted: Bool
    ) throws(RemoteSettingError) -> TransportSecurity {
      if !isEncrypted, let option = ["ca", "cert", "key"].first(where: { options[$0] != nil }) {
        throw RemoteSettingError(option, "it is for TLS, which https:// asks for")
      }
      return security(options)
    }

    static func security(_ options: URLOptions) -> TransportSecurity {
      func path(_ name: String) -> FilePath? { options[name].map { FilePath($0) } }
      return TransportSecurity(authority: path("ca"), certificate: path("cert"), key: path("key"))
    }

    static func namespace(
      _ text: String, _ options: URLOptions
    ) throws(RemoteSettingError) -> RemoteNamespace {
      var text = text
      while text.hasSuffix("/") { text.removeLast() }
      let naming: RecordNaming
      switch options["naming"] {
      case nil, "encoded": naming = .encoded
      case "sha256": naming = .sha256
      case let other?: throw RemoteSettingError("naming", "it is encoded or sha256, and not \(other)")
      }
      guard let name = PercentEncoding.decoded(text) else {
        throw RemoteSettingError("namespace", "it has a wrong escape")
      }
      let namespace = RemoteNamespace(name.isEmpty ? "blobcache" : name, naming: naming)
      if let fault = namespace.fault { throw RemoteSettingError("namespace", fault) }
      return namespace
    }
  }
#endif

struct URLOptions {
  private var values: [String: String] = [:]

  /// - Throws: `RemoteSettingError` for an unknown or duplicate name, a missing value, and invalid escapes.
  init(_ query: some StringProtocol, known: Set<String>) throws(RemoteSettingError) {
    for part in query.split(separator: "&") {
      let halves = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard let name = PercentEncoding.decoded(halves[0]), known.contains(name) else {
        throw RemoteSettingError(
          "\(halves[0])", "there is no such option here; those are \(known.sorted().joined(separator: ", "))")
      }
      // The operating system would truncate a path at a NUL byte.
      guard halves.count == 2, let value = PercentEncoding.decoded(halves[1]), !value.isEmpty,
        !value.utf8.contains(0)
      else {
        throw RemoteSettingError(name, "it has no value, a wrong escape or a NUL, as in \(name)=VALUE")
      }
      guard values.updateValue(value, forKey: name) == nil else { throw RemoteSettingError(name, "it is given twice") }
    }
  }

  subscript(name: String) -> String? { values[name] }

  func isTrue(_ name: String) throws(RemoteSettingError) -> Bool {
    switch values[name] {
    case nil, "false": return false
    case "true": return true
    case let value?: throw RemoteSettingError(name, "it is true or false, and not \(value)")
    }
  }
}

/// An error about an invalid setting of an engine, with advice and without secrets.
public struct RemoteSettingError: Error, Sendable, CustomStringConvertible {
  /// The name of the setting in `RemoteURL`, such as `region`.
  public let setting: String
  /// A description of the mistake.
  public let message: String

  init(_ setting: String, _ message: String) {
    self.setting = setting
    self.message = message
  }

  public var description: String { "\(setting): \(message)" }
}
