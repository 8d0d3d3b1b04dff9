internal import BlobStore

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// The resources of a directory that this process holds, read from /proc so that no call touches the directory.
public struct HeldResources: Codable, Hashable, Sendable {
  /// The paths of open files and directories: the root and everything below it.
  public var descriptors: [String] = []
  /// The locks on these files, except the locks of a session, and the stripes that are held.
  public var locks: [String] = []

  public init() {}

  /// - Parameter root: The absolute path without symbolic links, as the kernel reports it.
  public init(below root: String) {
    let processDirectory = "/proc/self"
    // Without /proc nothing is reported.
    let numbers = (try? FileManager.default.contentsOfDirectory(atPath: processDirectory + "/fd")) ?? []
    for number in numbers {
      let link = "\(processDirectory)/fd/\(number)"
      // The descriptor of the listing itself is closed by now.
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

  /// Returns whether a store holds the lock until it closes the control file: Spec/ControlFile.md, "Sessions".
  private static func isOfSession(_ line: Substring) -> Bool {
    let words = line.split(separator: " ")
    guard words.count >= 3, words.contains("OFDLCK"), let first = Int64(words[words.count - 2]) else { return false }
    return words.contains("READ")
      ? first == 0 && words.last == "\(ControlLayout.stripeBytes.upperBound - 1)"
      : first >= ControlLayout.sessionByteOffset
  }

  /// Returns the stripes whose words are not 0.
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
