public import SystemPackage

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
