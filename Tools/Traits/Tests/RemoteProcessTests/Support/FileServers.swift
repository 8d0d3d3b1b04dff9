import BlobCacheRemote
import Foundation

/// nginx with WebDAV, which stores each object in a file.
final class Nginx: Sendable {
  let server: EngineServer
  let port: Int

  static var isThere: Bool { Programs.path("nginx") != nil }
  static let shared = Task { try await Nginx() }

  /// - Parameters:
  ///   - certificates: The certificates of a server with TLS that requires a client certificate.
  ///   - shown: The name of the server's certificate.
  init(_ certificates: Certificates? = nil, showing shown: String = "server") async throws {
    let program = try Programs.required("nginx")
    let port = try EngineServer.freePorts(1)[0]
    self.port = port
    server = try await EngineServer("nginx") { directory in
      for name in ["root", "temporary"] {
        try FileManager.default.createDirectory(
          at: directory.appending(path: name), withIntermediateDirectories: true)
      }
      let tls = certificates.map {
        """
        ssl_certificate \($0.path("\(shown).pem")); ssl_certificate_key \($0.path("\(shown).key"));
        ssl_client_certificate \($0.path("ca.pem")); ssl_verify_client on;
        """
      }
      let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map { "\($0)_temp_path \(directory.path)/temporary;" }.joined(separator: " ")
      let configuration = directory.appending(path: "nginx.conf")
      try Data(
        """
        daemon off; master_process off; pid \(directory.path)/pid; error_log \(directory.path)/errors;
        events { worker_connections 512; }
        http {
          access_log off; client_max_body_size 100m; \(temporary)
          server {
            listen 127.0.0.1:\(port)\(tls == nil ? "" : " ssl"); listen 127.0.0.2:\(port)\(tls == nil ? "" : " ssl");
            \(tls ?? "")
            root \(directory.path)/root;
            location /dav/ { dav_methods PUT DELETE; create_full_put_path on; }
            location /flat/ { dav_methods PUT DELETE; }
            location /small/ { client_max_body_size 1m; dav_methods PUT; create_full_put_path on; }
            location /closed/ { auth_basic cache; auth_basic_user_file \(directory.path)/users; dav_methods PUT DELETE; }
            location /moved/ { return 301 https://127.0.0.1/elsewhere/; }
            location /busy/ { add_header Retry-After 7 always; return 429; }
            location /full/ { return 507; }
          }
        }
        """.utf8
      ).write(to: configuration)
      try Data("user:{PLAIN}password\n".utf8).write(to: directory.appending(path: "users"))
      return [program, "-c", configuration.path, "-p", directory.path]
    } isReady: { _ in
      isListening(at: port)
    }
  }

  func endpoint(_ path: String) throws -> HTTPEndpoint { try HTTPEndpoint("http://127.0.0.1:\(port)/\(path)") }
}

/// `blobcache-serve` on a temporary directory.
final class BlobCacheServe: Sendable {
  let server: EngineServer
  let endpoint: HTTPEndpoint

  static let shared = Task { try await BlobCacheServe() }

  /// - Parameter tokens: The lines of a token file, or `nil` for a server without tokens.
  init(tokens: String? = nil) async throws {
    let program = Bundle.main.bundleURL.appending(path: "blobcache-serve").path
    let port = try EngineServer.freePorts(1)[0]
    server = try await EngineServer("blobcache-serve") { directory in
      let command = [program, directory.appending(path: "cache").path, "--listen", "127.0.0.1:\(port)"]
      guard let tokens else { return command }
      let file = directory.appending(path: "tokens").path
      let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
      guard FileManager.default.createFile(atPath: file, contents: Data(tokens.utf8), attributes: attributes) else {
        throw Failure("no \(file)")
      }
      return command + ["--tokens", file]
    } isReady: { _ in
      isListening(at: port)
    }
    endpoint = try HTTPEndpoint("http://127.0.0.1:\(port)/v1/blobs")
  }
}

func isListening(at port: Int) -> Bool { Connection(to: port) != nil }
