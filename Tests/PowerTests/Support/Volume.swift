import CVolumes
import Foundation
import SystemPackage
import TestSupport
import Testing

/// A real file system on an image file that can lose its power or become full. It needs Linux and root.
final class Volume {
  enum FileSystem: String, Sendable {
    case ext4, xfs, btrfs, tmpfs
  }

  struct CallFailed: Error, CustomStringConvertible {
    let what: String
    let errno: Int32

    var description: String { "\(what): \(Errno(rawValue: errno))" }
  }

  let fileSystem: FileSystem
  private let directory: TemporaryDirectory
  private let mountOptions: String
  private var isMounted = false
  /// The mounted image, and the number of the loop device.
  private var source: (image: String, device: Int32)?

  /// Creates the file system and mounts it.
  ///
  /// - Parameters:
  ///   - formatOptions: The options of mkfs.
  ///   - mountOptions: The options of mount(8).
  ///   - isMounted: A Boolean value that indicates whether to mount the file system.
  init(
    _ fileSystem: FileSystem, megabytes: Int, formatOptions: [String] = [], mountOptions: String = "",
    isMounted: Bool = true
  ) throws {
    self.fileSystem = fileSystem
    self.mountOptions = mountOptions
    directory = try TemporaryDirectory(inMemory: true)
    try FileManager.default.createDirectory(atPath: mountPoint, withIntermediateDirectories: false)
    if fileSystem != .tmpfs {
      guard truncate(FileManager.default.createFile(atPath: image, contents: nil) ? image : "", megabytes << 20) == 0
      else { throw CallFailed(what: "truncate \(image)", errno: errno) }
      try ChildProcess.runSuccessfully(
        ["mkfs.\(fileSystem)", "-q", fileSystem == .ext4 ? "-F" : "-f"] + formatOptions + [image])
    }
    if isMounted { try mount() }
  }

  deinit {
    if isMounted { _ = volume_abandon(mountPoint) }
  }

  var image: String { directory.path.string + "/image" }
  var mountPoint: String { directory.path.string + "/mount" }
  var cache: String { mountPoint + "/cache" }

  /// - Parameter device: The file to mount instead of the image.
  func mount(_ device: String? = nil) throws {
    if fileSystem == .tmpfs {
      try Self.check("mount tmpfs", volume_mount(mountPoint, fileSystem.rawValue, mountOptions))
    } else {
      let image = device ?? image
      var number: Int32 = 0
      try Self.check(
        "mount \(fileSystem)", volume_mount_image(image, mountPoint, fileSystem.rawValue, mountOptions, &number))
      source = (image, number)
    }
    isMounted = true
  }

  /// Unmounts the file system, and waits until nothing can change the image.
  func unmount() throws {
    try Self.check("umount", volume_unmount(mountPoint))
    isMounted = false
    guard let (image, device) = source.take() else { return }
    try Self.check(
      "umount \(image): another mount namespace may keep it on /dev/loop\(device)",
      volume_wait_for_image(device, image))
  }

  func cutPower() throws { try Self.check("FS_IOC_SHUTDOWN", volume_cut_power(mountPoint)) }

  func setReadOnly(_ isReadOnly: Bool) throws {
    try Self.check("remount", volume_set_read_only(mountPoint, isReadOnly))
  }

  private static func check(_ what: String, _ error: Int32) throws {
    guard error == 0 else { throw CallFailed(what: what, errno: error) }
  }
}

// MARK: - Where it cannot be had

extension Volume {
  /// Returns the reason why a file system cannot be tested, or `nil` if it can.
  static func obstacle(_ fileSystem: FileSystem) -> String? {
    #if os(Linux)
      guard getuid() == 0 else { return "needs root, to mount \(fileSystem)" }
      let format = "mkfs.\(fileSystem)"
      if fileSystem != .tmpfs {
        guard access("/dev/loop-control", R_OK | W_OK) == 0 else { return "needs loop devices" }
        guard Programs.installed(format) != nil else { return "needs \(format)" }
      }
      do {
        // The kernel may lack the file system, and a container may forbid mounting.
        try Volume(fileSystem, megabytes: fileSystem == .xfs ? 320 : 128).unmount()
        return nil
      } catch {
        return "no volumes: \(error)"
      }
    #else
      return "needs loop devices and ioctls of Linux"
    #endif
  }
}

extension Trait where Self == ConditionTrait {
  /// Skips a test visibly if a file system cannot be created and mounted.
  static func canMount(_ fileSystem: Volume.FileSystem) -> Self {
    // The check runs only if the test is selected, because it costs a mount.
    .enabled("needs root, loop devices and mkfs.\(fileSystem.rawValue)") {
      guard let obstacle = Volume.obstacle(fileSystem) else { return true }
      print("skipped: volumes of \(fileSystem): \(obstacle)")
      return false
    }
  }
}
