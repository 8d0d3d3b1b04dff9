#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// What this process holds of a directory: Linux tells in /proc, and so no call touches the directory.
public struct HeldResources: Codable, Hashable, Sendable {
  /// Paths of open files and directories below the root, and of the root itself.
  public var descriptors: [String] = []
  /// File locks, wherever they lie.
  public var locks: [String] = []

  public init() {}

  /// - Parameter root: absolute and without links, as the kernel shows it.
  public init(below root: String) {
    let processDirectory = "/proc/self"
    // Without /proc nothing is known, and nothing is reported.
    let numbers = (try? FileManager.default.contentsOfDirectory(atPath: processDirectory + "/fd")) ?? []
    for number in numbers {
      let link = "\(processDirectory)/fd/\(number)"
      // The listing's own descriptor is closed by now.
      guard let path = try? FileManager.default.destinationOfSymbolicLink(atPath: link), path.hasPrefix(root) else {
        continue
      }
      descriptors.append(path)
      let information = FileManager.default.contents(atPath: "\(processDirectory)/fdinfo/\(number)") ?? Data()
      for line in String(decoding: information, as: UTF8.self).split(separator: "\n") where line.hasPrefix("lock:") {
        locks.append("\(path): \(line)")
      }
    }
  }
}
