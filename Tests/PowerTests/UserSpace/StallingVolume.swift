#if os(Linux)
  import CVolumes
  import Foundation
  import SystemPackage
  import TestSupport
  import Testing

  /// A directory behind a file system whose server can stall. It needs Linux and root.
  final class StallingVolume: Sendable {
    private let directory: TemporaryDirectory
    let server: FuseServer
    /// Ends the connection from outside if this process is killed. Otherwise a thread that waits for an answer would
    /// keep the connection open and wait forever.
    private let watchman: ChildProcess
    private let watchmanInput = Pipe()
    /// The lifetime in seconds; a test needs less than one.
    private static let longestLife = 120

    /// - Parameter remembers: A Boolean value that indicates whether the kernel may cache names, statuses and bytes.
    init(remembers: Bool) throws {
      directory = try TemporaryDirectory()
      for path in [directory.path.string + "/mount", directory.path.string + "/real"] {
        try FileManager.default.createDirectory(
          atPath: path, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
      }
      let connection = open("/dev/fuse", O_RDWR | O_CLOEXEC)
      guard connection >= 0 else { throw Volume.CallFailed(what: "open /dev/fuse", errno: errno) }
      let options = "fd=\(connection),rootmode=40000,user_id=\(getuid()),group_id=\(getgid())"
      let error = volume_mount(directory.path.string + "/mount", "fuse", options)
      guard error == 0 else {
        close(connection)
        throw Volume.CallFailed(what: "mount fuse", errno: error)
      }
      do {
        watchman = try ChildProcess(
          [
            "bash", "-c", #"read -r -t "$1"; exec umount -c -f -l "$2""#, "watchman", "\(Self.longestLife)",
            directory.path.string + "/mount",
          ],
          input: watchmanInput)
      } catch {
        _ = volume_abandon(directory.path.string + "/mount")
        close(connection)
        throw error
      }
      server = FuseServer(connection, serving: directory.path.string + "/real", remembers: remembers)
    }

    deinit {
      // The volume is unmounted first, to prevent new requests. Pending ones fail with the connection.
      _ = volume_abandon(mountPoint)
      server.stop()
      watchman.kill()
    }

    var mountPoint: String { directory.path.string + "/mount" }
    /// The path of the cache through the server.
    var cache: String { mountPoint + "/cache" }
    /// The path of the cache in the served directory.
    var realCache: String { directory.path.string + "/real/cache" }
  }

  extension Trait where Self == ConditionTrait {
    /// Skips a test visibly if a process cannot serve a file system.
    static var canServeFiles: Self {
      .enabled("needs root and /dev/fuse") {
        do {
          let volume = try StallingVolume(remembers: true)
          return access(volume.mountPoint, F_OK) == 0
        } catch {
          print("skipped: a file system that stalls: \(error)")
          return false
        }
      }
    }
  }
#endif
