internal import BlobStore

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// What this process holds of a directory: Linux tells in /proc, and so no call touches the directory.
public struct HeldResources: Codable, Hashable, Sendable {
  /// Paths of open files and directories below the root, and of the root itself.
  public var descriptors: [String] = []
  /// File locks, wherever they lie, but for those of a session, and stripes that are held.
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
        if !Self.isOfSession(line) { locks.append("\(path): \(line)") }
      }
    }
    locks += Self.heldStripes(of: root + "/.blobcache")
  }

  /// Whether a lock is one that a store keeps until it closes the control file: Spec/ControlFile.md, "Sessions".
  private static func isOfSession(_ line: Substring) -> Bool {
    let words = line.split(separator: " ")
    guard words.count >= 3, words.contains("OFDLCK"), let first = Int64(words[words.count - 2]) else { return false }
    return words.contains("READ")
      ? first == 0 && words.last == "\(ControlLayout.stripeBytes.upperBound - 1)"
      : first >= ControlLayout.sessionByteOffset
  }

  /// The stripes whose words are not 0.
  private static func heldStripes(of path: String) -> [String] {
    guard let content = FileManager.default.contents(atPath: path), content.count == ControlLayout.byteCount else {
      return []
    }
    return (0..<ControlLayout.stripeCount).compactMap { stripe in
      let word = content.dropFirst(ControlLayout.stripeOffset(stripe)).prefix(8)
      return word.allSatisfy { $0 == 0 } ? nil : "stripe \(stripe)"
    }
  }
}
