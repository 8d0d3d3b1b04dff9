import BlobCache
import Foundation
import Testing

@testable import BlobCacheRemote

/// The sources of secrets, and their absence from errors and descriptions.
@Suite(.timeLimit(.minutes(5))) struct CredentialTests {
  private func file(_ text: String, mode: Int = 0o600) throws -> FilePath {
    let url = FileManager.default.temporaryDirectory.appending(path: "secret-\(UUID().uuidString)")
    try Data(text.utf8).write(to: url)
    try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: url.path)
    return FilePath(url.path)
  }

  @Test func theEnvironmentIsRead() throws {
    let whole = ["AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "SK", "AWS_SESSION_TOKEN": "ST"]
    let found = try EnvironmentCredentials { whole }.credentials()
    #expect(found == S3Credentials(accessKey: "AK", secretKey: "SK", sessionToken: "ST"))
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
      var part = whole
      part[name] = ""
      let source = EnvironmentCredentials { [part] in part }
      let error = #expect(throws: RemoteSettingError.self) { try source.credentials() }
      #expect(error?.message == "\(name) is not set")
    }
  }

  /// An empty variable counts as unset.
  @Test func emptyVariablesAreNone() async throws {
    let variables = ["AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "SK", "AWS_SESSION_TOKEN": ""]
    #expect(try EnvironmentCredentials { variables }.credentials().sessionToken == nil)
    let text = "[default]\naws_access_key_id = AK\naws_secret_access_key = SK\naws_session_token =\n"
    let path = try file(text)
    let empty = ["AWS_PROFILE": "", "AWS_SHARED_CREDENTIALS_FILE": "", "HOME": "/nonexistent"]
    let found = try await SharedFileCredentials(path, profile: nil) { empty }.credentials()
    #expect(found == S3Credentials(accessKey: "AK", secretKey: "SK"))
    let error = await #expect(throws: RemoteSettingError.self) {
      try await SharedFileCredentials(nil, profile: nil) { empty }.credentials()
    }
    #expect(error?.setting == "/nonexistent/.aws/credentials")
  }

  /// A secret with invalid characters is refused with the name of its setting, and never disclosed.
  @Test func controlCharactersAreNamed() async throws {
    for (access, secret, token, part) in [
      ("AK\nhidden", "SK", nil, "access key"), ("AK", "hidden\n", nil, "secret key"),
      ("AK", "SK", "hidden\r", "session token"),
    ] as [(String, String, String?, String)] {
      let cache = CredentialCache(.fixed(accessKey: access, secretKey: secret, sessionToken: token)) {
        UnixTime(seconds: 0)
      }
      let error = await #expect(throws: RemoteError.self) { try await cache.credentials(for: "engine") }
      #expect(error?.kind == .refused && error?.message.contains(part) == true && error?.cause == nil)
      #expect(error.map { "\($0)" }?.contains("hidden") == false)
    }
    var settings = HTTPEngine.Settings(try HTTPEndpoint("http://127.0.0.1:1"))
    settings.credential = .bearer(.fixed("hidden\n"))
    let engine = try HTTPEngine(settings)
    let error = await #expect(throws: RemoteError.self) { try await engine.get(RemoteName("a")) }
    #expect(error?.kind == .refused && error?.message.contains("token-file") == true && error?.cause == nil)
    #expect(error.map { "\($0)" }?.contains("hidden") == false)
    await engine.close()
  }

  /// A private key must not be readable by others.
  @Test func aPrivateKeyIsForFew() throws {
    let key = try file("key", mode: 0o644)
    let security = TransportSecurity(certificate: key, key: key)
    let error = #expect(throws: RemoteSettingError.self) { try security.configuration() }
    #expect(error?.message.contains("chmod o-r") == true)
  }

  private static let shared = """
    # a comment
    [default]
    aws_access_key_id = AK1
    aws_secret_access_key=SK1=

    [ other ]
    AWS_ACCESS_KEY_ID = AK2
    aws_secret_access_key = SK2
    aws_session_token = ST2
    ; another
    [half]
    aws_access_key_id = AK3
    """

  @Test func aProfileOfTheSharedFileIsRead() async throws {
    let path = try file(Self.shared)
    let variables = ["AWS_SHARED_CREDENTIALS_FILE": path.string]
    func read(_ path: FilePath?, _ profile: String?, _ variables: [String: String]) async throws -> S3Credentials {
      try await SharedFileCredentials(path, profile: profile) { variables }.credentials()
    }
    let first = S3Credentials(accessKey: "AK1", secretKey: "SK1=")
    let second = S3Credentials(accessKey: "AK2", secretKey: "SK2", sessionToken: "ST2")
    #expect(try await read(path, nil, [:]) == first)
    #expect(try await read(nil, nil, variables) == first)
    #expect(try await read(path, "other", [:]) == second)
    #expect(try await read(nil, nil, variables.merging(["AWS_PROFILE": "other"]) { $1 }) == second)
    for (profile, message) in [("none", "no profile none"), ("half", "no aws_secret_access_key")] {
      let error = await #expect(throws: RemoteSettingError.self) { try await read(path, profile, [:]) }
      #expect(error?.message.contains(message) == true && error?.message.contains("AK3") == false)
    }
    let home = ["HOME": "/nonexistent"]
    let error = await #expect(throws: RemoteSettingError.self) { try await read(nil, nil, home) }
    #expect(error?.setting == "/nonexistent/.aws/credentials")
    await #expect(throws: RemoteSettingError.self) { try await read(try file(Self.shared, mode: 0o644), nil, [:]) }
  }

  /// The file may begin with a byte order mark, and comments may follow its sections and values.
  @Test(arguments: ["\n", "\r\n"]) func commentsAndAMarkAreNoValues(lineEnd: String) async throws {
    let lines = [
      "\u{FEFF}[default] # of all", "aws_access_key_id = AK1 ; of the team", "aws_secret_access_key = S#K;1=\t# here",
      "  ; indented", "[other];of some", "aws_access_key_id=AK2", "aws_secret_access_key=#SK2", "aws_session_token = ;",
    ]
    let path = try file(lines.joined(separator: lineEnd))
    func read(_ profile: String) async throws -> S3Credentials {
      try await SharedFileCredentials(path, profile: profile) { [:] }.credentials()
    }
    #expect(try await read("default") == S3Credentials(accessKey: "AK1", secretKey: "S#K;1="))
    #expect(try await read("other") == S3Credentials(accessKey: "AK2", secretKey: "#SK2"))
    #expect(try await Secret.file(try file("\u{FEFF}token\n")).text() == "token")
  }

  @Test func aSecretFileHasOneLine() async throws {
    #expect(try await Secret.file(try file("  token \nmore")).text() == "token")
    await #expect(throws: RemoteSettingError.self) { try await Secret.file(try file("\n")).text() }
    await #expect(throws: RemoteSettingError.self) { try await Secret.file(try file("token", mode: 0o604)).text() }
    await #expect(throws: RemoteSettingError.self) { try await Secret.file("/none").text() }
  }

  /// A file whose read hangs, such as on a network volume, blocks one thread, but none of the cooperative pool.
  @Test func aFileThatHangsBlocksNoTask() async throws {
    let pipes = (try SlowFile(), try SlowFile())
    let secret = Secret.file(FilePath(pipes.0.path))
    let shared = SharedFileCredentials(FilePath(pipes.1.path))
    // The number of tasks exceeds the number of threads in the cooperative pool.
    let waiting = (0..<200).map { index in
      Task { index % 2 == 0 ? try await secret.text() : try await shared.credentials().accessKey }
    }
    for task in waiting.dropFirst(2) { task.cancel() }
    for task in waiting.dropFirst(2) { await #expect(throws: CancellationError.self) { try await task.value } }
    try await pipes.0.come("token\n")
    try await pipes.1.come("[default]\naws_access_key_id = AK\naws_secret_access_key = SK\n")
    #expect(try await waiting[0].value == "token")
    #expect(try await waiting[1].value == "AK")
  }

  /// A FIFO, whose readers wait for its text.
  private struct SlowFile {
    let path = FileManager.default.temporaryDirectory.appending(path: "secret-\(UUID().uuidString)").path
    private let descriptor: Int32

    init() throws {
      guard mkfifo(path, 0o600) == 0 else { throw Failure("no FIFO: \(errno)") }
      // An open writer lets readers open the FIFO without waiting.
      descriptor = open(path, O_RDWR)
    }

    func come(_ text: String) async throws {
      #expect(write(descriptor, text, text.utf8.count) == text.utf8.count)
      try await eventually("\(path) is read") {
        var waiting: Int32 = 0
        return ioctl(descriptor, UInt(FIONREAD), &waiting) == 0 && waiting == 0
      }
      close(descriptor)
      unlink(path)
    }
  }

  @Test func noDescriptionTellsASecret() throws {
    let credentials = S3Credentials(accessKey: "AK", secretKey: "hidden", sessionToken: "hidden")
    var s3 = S3Engine.Settings(bucket: "covers", credentials: FixedCredentials(credentials))
    s3.endpoint = try HTTPEndpoint("http://127.0.0.1")
    var http = HTTPEngine.Settings(try HTTPEndpoint("http://127.0.0.1"))
    http.credential = .basic(user: "u", password: .fixed("hidden"))
    for value in [credentials, FixedCredentials(credentials), s3, Secret.fixed("hidden"), http, http.credential]
      as [Any]
    {
      var text =
        "\(value) \(String(reflecting: value)) \(String(describing: Mirror(reflecting: value).children.map { $0 }))"
      dump(value, to: &text)
      #expect(!text.contains("hidden"), "\(type(of: value))")
    }
    #expect("\(credentials)" == "access key AK")
  }

  private final class Source: S3CredentialSource, @unchecked Sendable {
    private let lock = NSLock()
    private var asked = 0
    var expiry: UnixTime?

    func credentials() throws -> S3Credentials {
      lock.withLock { asked += 1 }
      return S3Credentials(accessKey: "AK\(lock.withLock { asked })", secretKey: "SK", expiry: expiry)
    }
  }

  /// Credentials are refreshed after five minutes, a minute before their expiry, and after a refusal.
  @Test func credentialsAreKeptForAWhile() async throws {
    let (source, clock) = (Source(), Clock())
    let cache = CredentialCache(source) { clock.now }
    func key() async throws -> String { try await cache.credentials(for: "engine").accessKey }
    #expect(try await key() == "AK1")
    clock.now.seconds += 299
    #expect(try await key() == "AK1")
    clock.now.seconds += 1
    #expect(try await key() == "AK2")
    // Another caller may have replaced the refused credentials already.
    cache.forget(S3Credentials(accessKey: "AK1", secretKey: "SK"))
    #expect(try await key() == "AK2")
    cache.forget(S3Credentials(accessKey: "AK2", secretKey: "SK"))
    source.expiry = clock.now.advanced(bySeconds: 100)
    #expect(try await key() == "AK3")
    clock.now.seconds += 39
    #expect(try await key() == "AK3")
    clock.now.seconds += 1
    #expect(try await key() == "AK4")
  }

  private final class Clock: @unchecked Sendable {
    private let lock = NSLock()
    private var time = UnixTime(seconds: 1000)
    var now: UnixTime {
      get { lock.withLock { time } }
      set { lock.withLock { time = newValue } }
    }
  }
}
