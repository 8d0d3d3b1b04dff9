import Foundation
import SystemPackage
import TestSupport

/// A shortage of a volume.
enum Shortage: String {
  case space, inodes, quota, readOnly

  /// The errors that calls may fail with.
  var errors: [Errno] {
    switch self {
    case .space, .inodes: [.noSpace]
    case .quota: [.diskQuotaExceeded, .noSpace]
    case .readOnly: [.readOnlyFileSystem]
    }
  }

  func volume(_ fileSystem: Volume.FileSystem) throws -> Volume {
    switch (fileSystem, self) {
    case (.ext4, .inodes): return try Volume(.ext4, megabytes: 16, formatOptions: ["-N", "128"])
    case (.ext4, _): return try Volume(.ext4, megabytes: 16)
    case (.xfs, _): return try Volume(.xfs, megabytes: 320)
    case (.tmpfs, _): return try Volume(.tmpfs, megabytes: 0, mountOptions: "size=8m,nr_inodes=128")
    case (.btrfs, .quota):
      let volume = try Volume(.btrfs, megabytes: 256)
      try ChildProcess.runSuccessfully(["btrfs", "quota", "enable", volume.mountPoint])
      try ChildProcess.runSuccessfully(["btrfs", "qgroup", "limit", "32M", volume.mountPoint])
      return volume
    case (.btrfs, _): return try Volume(.btrfs, megabytes: 128)
    }
  }

  // MARK: - Beginning and ending

  func begin(on volume: Volume) throws {
    switch self {
    case .space, .quota: try fill(volume.mountPoint + "/filler")
    case .inodes:
      let directory = volume.mountPoint + "/fillers"
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
      var count = 0
      while true {
        let descriptor = open("\(directory)/\(count)", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { break }
        close(descriptor)
        count += 1
      }
    case .readOnly: try volume.setReadOnly(true)
    }
  }

  func end(on volume: Volume) throws {
    switch self {
    case .space, .quota: try FileManager.default.removeItem(atPath: volume.mountPoint + "/filler")
    case .inodes: try FileManager.default.removeItem(atPath: volume.mountPoint + "/fillers")
    case .readOnly: try volume.setReadOnly(false)
    }
    // btrfs frees the space at the end of its transaction.
    try ChildProcess.runSuccessfully(["sync", "-f", volume.mountPoint])
  }

  private func fill(_ path: String) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw Volume.CallFailed(what: "open \(path)", errno: errno) }
    defer { close(descriptor) }
    var end = 0
    for byteCount in [16 << 20, 1 << 20, 64 << 10, 4 << 10] {
      while posix_fallocate(descriptor, off_t(end), off_t(byteCount)) == 0 { end += byteCount }
    }
    let block = [UInt8](repeating: 1, count: 4096)
    while pwrite(descriptor, block, block.count, off_t(end)) == block.count { end += block.count }
    fsync(descriptor)
  }
}
