internal import BlobCache
public import BlobRecord
internal import Locks
public import SystemPackage

/// Where an engine for S3 has its credentials from: the environment, a file, or a service of the program's own.
public protocol S3CredentialSource: Sendable {
  /// The credentials as they are now. An engine keeps them for five minutes, or until they end.
  ///
  /// - Throws: an error that says what to set. It ends the request as refused.
  func credentials() async throws -> S3Credentials
}

/// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`.
public struct EnvironmentCredentials: S3CredentialSource {
  private let variables: @Sendable () -> [String: String]

  /// Those of the process's environment.
  public init() { self.init { ProcessInfo.processInfo.environment } }

  init(_ variables: @escaping @Sendable () -> [String: String]) { self.variables = variables }

  /// - Throws: `RemoteSettingError` where a variable is missing.
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

/// Credentials that stay.
public struct FixedCredentials: S3CredentialSource {
  private let value: S3Credentials

  /// - Parameter value: the credentials.
  public init(_ value: S3Credentials) { self.value = value }

  /// The credentials.
  public func credentials() -> S3Credentials { value }
}

/// The environment's credentials, else those of the shared file.
public struct StandardCredentials: S3CredentialSource {
  private let file = SharedFileCredentials()

  /// The environment and then the file, as other programs look for them.
  public init() {}

  /// - Throws: `RemoteSettingError` that names both places; `CancellationError` if the task is cancelled.
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
  /// The environment's credentials, else those of the shared file.
  public static var standard: Self { StandardCredentials() }
}

extension S3CredentialSource where Self == EnvironmentCredentials {
  /// Those of the process's environment.
  public static var environment: Self { EnvironmentCredentials() }
}

extension S3CredentialSource where Self == SharedFileCredentials {
  /// Those of a profile in a file.
  ///
  /// - Parameters:
  ///   - path: the file; nil for `AWS_SHARED_CREDENTIALS_FILE`, else `~/.aws/credentials`.
  ///   - profile: the section in it; nil for `AWS_PROFILE`, else `default`.
  public static func sharedFile(_ path: FilePath? = nil, profile: String? = nil) -> Self {
    SharedFileCredentials(path, profile: profile)
  }
}

extension S3CredentialSource where Self == FixedCredentials {
  /// Credentials that stay.
  ///
  /// - Parameters:
  ///   - accessKey: what the server knows the caller by.
  ///   - secretKey: what signs.
  ///   - sessionToken: for keys that were lent for a while; nil for others.
  public static func fixed(accessKey: String, secretKey: String, sessionToken: String? = nil) -> Self {
    FixedCredentials(S3Credentials(accessKey: accessKey, secretKey: secretKey, sessionToken: sessionToken))
  }
}

/// An access key, and the secret that signs requests. No description of it tells a secret.
public struct S3Credentials: Hashable, Sendable {
  /// What the server knows the caller by, which is no secret.
  public var accessKey: String
  /// What signs, and is never sent.
  public var secretKey: String
  /// For keys that were lent for a while; nil for others.
  public var sessionToken: String?
  /// When they end; nil for those that stay. A minute before it, the source is asked for others.
  public var expiry: UnixTime?

  /// - Parameters:
  ///   - accessKey: what the server knows the caller by.
  ///   - secretKey: what signs.
  ///   - sessionToken: for keys that were lent for a while; nil for others.
  ///   - expiry: when they end; nil for those that stay.
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
  /// The access key alone.
  public var customMirror: Mirror { Mirror(self, children: ["accessKey": accessKey]) }
}

/// The credentials that an engine uses, until they end or are refused.
final class CredentialCache: Sendable {
  private let source: any S3CredentialSource
  private let now: @Sendable () -> UnixTime
  private let known = Lock<(value: S3Credentials, end: UnixTime)?>(nil)

  init(_ source: any S3CredentialSource, now: @escaping @Sendable () -> UnixTime) {
    self.source = source
    self.now = now
  }

  /// - Parameter engine: what messages call the engine.
  /// - Throws: `RemoteError` `refused`; `CancellationError`.
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

  /// The next request asks the source.
  func forget() { known.withLock { $0 = nil } }
}

/// A profile of the file that AWS's tools share: `~/.aws/credentials`.
public struct SharedFileCredentials: S3CredentialSource {
  private let path: FilePath?
  private let profile: String?
  private let variables: @Sendable () -> [String: String]
  private let reads = BlockingRead<S3Credentials>()

  /// - Parameters:
  ///   - path: the file; nil for `AWS_SHARED_CREDENTIALS_FILE`, else `~/.aws/credentials`.
  ///   - profile: the section in it; nil for `AWS_PROFILE`, else `default`.
  public init(_ path: FilePath? = nil, profile: String? = nil) {
    self.init(path, profile: profile) { ProcessInfo.processInfo.environment }
  }

  init(_ path: FilePath?, profile: String?, _ variables: @escaping @Sendable () -> [String: String]) {
    self.path = path
    self.profile = profile
    self.variables = variables
  }

  /// Reads the file, on a thread of its own: it may lie on a server that hangs.
  ///
  /// - Throws: `RemoteSettingError` for a file that cannot be read or that others may read, and for a profile that it does
  ///   not have whole; `CancellationError` if the task is cancelled.
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

  /// - Returns: nil for a profile that the text does not have.
  private static func entries(of profile: String, in text: String) -> [String: String]? {
    var entries: [String: String]?
    var isWanted = false
    for line in text.split(whereSeparator: \.isNewline).map({ $0.trimmed }) where !line.isEmpty {
      if line.hasPrefix("#") || line.hasPrefix(";") { continue }
      if line.hasPrefix("["), line.hasSuffix("]") {
        isWanted = line.dropFirst().dropLast().trimmed == profile
        if isWanted { entries = entries ?? [:] }
      } else if isWanted, let equals = line.firstIndex(of: "=") {
        entries?[line[..<equals].trimmed.lowercased()] = line[line.index(after: equals)...].trimmed
      }
    }
    return entries
  }
}
