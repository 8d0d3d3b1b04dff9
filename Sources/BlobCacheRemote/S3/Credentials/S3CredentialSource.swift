internal import BlobCache
public import BlobRecord
internal import Locks
public import SystemPackage

/// A source of credentials for an S3 engine: the environment, a file, or a custom service.
public protocol S3CredentialSource: Sendable {
  /// Returns the current credentials, which the engine caches for five minutes or until they expire.
  ///
  /// - Throws: An error that names the missing setting. The request then fails as refused.
  func credentials() async throws -> S3Credentials
}

/// Credentials from `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`.
public struct EnvironmentCredentials: S3CredentialSource {
  private let variables: @Sendable () -> [String: String]

  /// Creates a source that reads the environment of the process.
  public init() { self.init { ProcessInfo.processInfo.environment } }

  init(_ variables: @escaping @Sendable () -> [String: String]) { self.variables = variables }

  /// Returns the credentials.
  ///
  /// - Throws: `RemoteSettingError` if a variable is not set.
  public func credentials() throws -> S3Credentials {
    let variables = variables()
    guard let accessKey = variables["AWS_ACCESS_KEY_ID"], !accessKey.isEmpty else {
      throw RemoteSettingError("credentials", "AWS_ACCESS_KEY_ID is not set")
    }
    guard let secretKey = variables["AWS_SECRET_ACCESS_KEY"], !secretKey.isEmpty else {
      throw RemoteSettingError("credentials", "AWS_SECRET_ACCESS_KEY is not set")
    }
    return S3Credentials(
      accessKey: accessKey, secretKey: secretKey, sessionToken: variables["AWS_SESSION_TOKEN"]?.ifNotEmpty)
  }
}

/// Constant credentials.
public struct FixedCredentials: S3CredentialSource {
  private let value: S3Credentials

  /// Creates a source of constant credentials.
  ///
  /// - Parameter value: The credentials.
  public init(_ value: S3Credentials) { self.value = value }

  /// Returns the credentials.
  public func credentials() -> S3Credentials { value }
}

/// The credentials of the environment, or of the shared file if the environment has none.
public struct StandardCredentials: S3CredentialSource {
  private let file = SharedFileCredentials()

  /// Creates a source that reads the environment first and then the file, in the same order as other tools.
  public init() {}

  /// Returns the credentials.
  ///
  /// - Throws: `RemoteSettingError` that names both locations; `CancellationError` if the task is cancelled.
  public func credentials() async throws -> S3Credentials {
    do {
      return try EnvironmentCredentials().credentials()
    } catch {
      let first = error
      do {
        return try await file.credentials()
      } catch let error as CancellationError {
        throw error
      } catch {
        throw RemoteSettingError("credentials", "there are none: \(first); and \(error)")
      }
    }
  }
}

extension S3CredentialSource where Self == StandardCredentials {
  /// The credentials of the environment, or of the shared file if the environment has none.
  public static var standard: Self { StandardCredentials() }
}

extension S3CredentialSource where Self == EnvironmentCredentials {
  /// The credentials of the environment.
  public static var environment: Self { EnvironmentCredentials() }
}

extension S3CredentialSource where Self == SharedFileCredentials {
  /// Returns a source of the credentials of a profile in a file.
  ///
  /// - Parameters:
  ///   - path: The path of the file, or `nil` for `AWS_SHARED_CREDENTIALS_FILE` or `~/.aws/credentials`.
  ///   - profile: The section of the file, or `nil` for `AWS_PROFILE`, which defaults to `default`.
  public static func sharedFile(_ path: FilePath? = nil, profile: String? = nil) -> Self {
    SharedFileCredentials(path, profile: profile)
  }
}

extension S3CredentialSource where Self == FixedCredentials {
  /// Returns a source of constant credentials.
  ///
  /// - Parameters:
  ///   - accessKey: The public identifier of the caller.
  ///   - secretKey: The secret that signs requests.
  ///   - sessionToken: The session token of temporary credentials, or `nil` for permanent ones.
  public static func fixed(accessKey: String, secretKey: String, sessionToken: String? = nil) -> Self {
    FixedCredentials(S3Credentials(accessKey: accessKey, secretKey: secretKey, sessionToken: sessionToken))
  }
}

/// An access key and the secret that signs requests. Its descriptions contain no secrets.
public struct S3Credentials: Hashable, Sendable {
  /// The identifier of the caller, which is not secret.
  public var accessKey: String
  /// The secret that signs requests and is never sent.
  public var secretKey: String
  /// The session token of temporary credentials, or `nil` for permanent ones.
  public var sessionToken: String?
  /// The expiry of the credentials, or `nil` for permanent ones. One minute before it, the source provides new ones.
  public var expiry: UnixTime?

  /// Creates credentials.
  ///
  /// - Parameters:
  ///   - accessKey: The public identifier of the caller.
  ///   - secretKey: The secret that signs requests.
  ///   - sessionToken: The session token of temporary credentials, or `nil` for permanent ones.
  ///   - expiry: The expiry of the credentials, or `nil` for permanent ones.
  public init(accessKey: String, secretKey: String, sessionToken: String? = nil, expiry: UnixTime? = nil) {
    self.accessKey = accessKey
    self.secretKey = secretKey
    self.sessionToken = sessionToken
    self.expiry = expiry
  }
}

extension S3Credentials: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "access key \(accessKey)" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: ["accessKey": accessKey]) }
}

final class CredentialCache: Sendable {
  private let source: any S3CredentialSource
  private let now: @Sendable () -> UnixTime
  private let known = Lock<(value: S3Credentials, end: UnixTime)?>(nil)

  init(_ source: any S3CredentialSource, now: @escaping @Sendable () -> UnixTime) {
    self.source = source
    self.now = now
  }

  func credentials(for engine: String) async throws -> S3Credentials {
    let now = now()
    if let known = known.withLock({ $0 }), now < known.end { return known.value }
    let value: S3Credentials
    do {
      value = try await source.credentials()
    } catch is CancellationError {
      throw CancellationError()
    } catch {
      throw RemoteError(.refused, "\(engine): \(error)", cause: error)
    }
    for (text, part) in [
      (value.accessKey, "access key"), (value.secretKey, "secret key"), (value.sessionToken ?? "", "session token"),
    ]
    where text.hasControlCharacter {
      throw RemoteError(
        .refused, "\(engine): the \(part) of the credentials has a line end or another control character; remove it")
    }
    let end = min(now.advanced(bySeconds: 300), value.expiry?.advanced(bySeconds: -60) ?? now.advanced(bySeconds: 300))
    known.withLock { $0 = (value, end) }
    return value
  }

  /// Forgets refused credentials, unless they were replaced in the meantime.
  func forget(_ refused: S3Credentials) { known.withLock { if $0?.value == refused { $0 = nil } } }
}

/// A profile of the credentials file of AWS tools, `~/.aws/credentials`.
public struct SharedFileCredentials: S3CredentialSource {
  private let path: FilePath?
  private let profile: String?
  private let variables: @Sendable () -> [String: String]
  private let reads = BlockingRead<S3Credentials>()

  /// Creates a source that reads a profile of a file.
  ///
  /// - Parameters:
  ///   - path: The path of the file, or `nil` for `AWS_SHARED_CREDENTIALS_FILE` or `~/.aws/credentials`.
  ///   - profile: The section of the file, or `nil` for `AWS_PROFILE`, which defaults to `default`.
  public init(_ path: FilePath? = nil, profile: String? = nil) {
    self.init(path, profile: profile) { ProcessInfo.processInfo.environment }
  }

  init(_ path: FilePath?, profile: String?, _ variables: @escaping @Sendable () -> [String: String]) {
    self.path = path
    self.profile = profile
    self.variables = variables
  }

  /// Reads the file on a separate thread, because the file system may be remote and unresponsive.
  ///
  /// - Throws: `RemoteSettingError` for a file that cannot be read or that other users can read, and for a missing or
  ///   incomplete profile; `CancellationError` if the task is cancelled.
  public func credentials() async throws -> S3Credentials { try await reads.value { try read() } }

  private func read() throws -> S3Credentials {
    let variables = variables()
    let profile = profile ?? variables["AWS_PROFILE"]?.ifNotEmpty ?? "default"
    let path =
      path ?? variables["AWS_SHARED_CREDENTIALS_FILE"]?.ifNotEmpty.map { FilePath($0) }
      ?? FilePath(variables["HOME"] ?? "/").appending(".aws/credentials")
    let entries = Self.entries(of: profile, in: try SecretFile.text(at: path))
    func value(_ name: String) throws -> String {
      guard let value = entries?[name], !value.isEmpty else {
        let why = entries == nil ? "no profile \(profile)" : "no \(name) in its profile \(profile)"
        throw RemoteSettingError("credentials", "\(path) has \(why)")
      }
      return value
    }
    return S3Credentials(
      accessKey: try value("aws_access_key_id"), secretKey: try value("aws_secret_access_key"),
      sessionToken: entries?["aws_session_token"]?.ifNotEmpty)
  }

  private static func entries(of profile: String, in text: String) -> [String: String]? {
    var entries: [String: String]?
    var isWanted = false
    for line in text.split(whereSeparator: \.isNewline).map({ withoutComment($0) }) where !line.isEmpty {
      if line.hasPrefix("["), line.hasSuffix("]") {
        isWanted = line.dropFirst().dropLast().trimmed == profile
        if isWanted { entries = entries ?? [:] }
      } else if isWanted, let equals = line.firstIndex(of: "=") {
        entries?[line[..<equals].trimmed.lowercased()] = line[line.index(after: equals)...].trimmed
      }
    }
    return entries
  }

  /// Returns a trimmed line without its comment, which begins with `#` or `;` at its start, or after a space or a `]`.
  ///
  /// A value may contain these characters elsewhere.
  private static func withoutComment(_ line: some StringProtocol) -> String {
    let text = line.trimmed
    let isSection = text.hasPrefix("[")
    var previous: Character = " "
    for index in text.indices {
      let character = text[index]
      if "#;".contains(character), previous.isWhitespace || isSection && previous == "]" {
        return text[..<index].trimmed
      }
      previous = character
    }
    return text
  }
}
