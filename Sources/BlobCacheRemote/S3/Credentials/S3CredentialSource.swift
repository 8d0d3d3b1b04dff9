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
