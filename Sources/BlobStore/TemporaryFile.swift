internal import PosixFiles
internal import Synchronization
internal import SystemPackage

/// A record file in the making, beside the place it is to take. It is removed unless it is published.
///
/// Its writer holds a lock on it, by which a collection tells it from one whose writer is gone.
struct TemporaryFile: ~Copyable {
  let directory: Directory
  let file: OpenFile
  private let name: String
  private var isPublished = false

  /// Names of temporary files begin so. They are dot files, and so never records.
  static let prefix = ".tmp-"

  /// Whether a store may have given the name. Other programs' temporary files are foreign.
  static func isName(_ name: String) -> Bool {
    guard name.utf8.starts(with: prefix.utf8) else { return false }
    let number = name.utf8.dropFirst(prefix.utf8.count)
    return (1...16).contains(number.count)
      && number.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
  }

  /// Creates a file in `directory`, with the permissions and ownership that the root gives its files.
  ///
  /// System calls: `openat(2)`, `flock(2)`, `fstat(2)`.
  ///
  /// - Throws: ENOENT if the directory was removed: try again.
  init(in directory: consuming Directory, of root: RootDirectory.Opened, names: TemporaryNames) throws {
    var name = names.next()
    var obstacle = FileError(.open, Location(directory.path, name), .fileExists)
    var file = try Self.createLocked(name, in: directory, of: root, &obstacle)
    var triesLeft = 8
    while file == nil, triesLeft > 0 {
      name = names.next()
      file = try Self.createLocked(name, in: directory, of: root, &obstacle)
      triesLeft -= 1
    }
    guard let file = file.take() else {
      throw obstacle
    }
    self.name = name
    self.file = file
    self.directory = directory
  }

  deinit {
    // The store has failed and reports why; what cannot be unlinked now, a collection takes.
    if !isPublished { _ = try? directory.unlink(name) }
  }

  /// Takes the name unless something has it.
  ///
  /// - Returns: nil where the file system cannot tell.
  mutating func publishIfAbsent(as fileName: String) throws(FileError) -> Bool? {
    let renamed = try directory.renameIfAbsent(name, to: fileName)
    if renamed == true { isPublished = true }
    return renamed
  }

  /// Takes the name unless something has it, where `publishIfAbsent` cannot tell. The temporary name goes too.
  mutating func publishByLink(as fileName: String) throws(FileError) -> Bool {
    guard try directory.linkIfAbsent(name, as: fileName) else { return false }
    isPublished = true
    _ = try directory.unlink(name)
    return true
  }

  /// Takes the name, and the place of what has it.
  mutating func publish(as fileName: String) throws(FileError) {
    try directory.rename(name, to: fileName)
    isPublished = true
  }
}

extension TemporaryFile {
  /// - Parameter obstacle: receives why there is no file.
  /// - Returns: nil if the name was taken, or a collection came between the calls and removed the file.
  private static func createLocked(
    _ name: String, in directory: borrowing Directory, of root: RootDirectory.Opened, _ obstacle: inout FileError
  ) throws -> OpenFile? {
    let file: OpenFile
    do {
      file = try directory.createFile(name, permissions: root.filePermissions)
    } catch {
      guard error.errno == .fileExists else { throw error }
      obstacle = error
      return nil
    }
    do {
      guard try file.tryLock() else {
        obstacle = FileError(.lock, file.location, .wouldBlock)
        _ = try directory.unlink(name)
        return nil
      }
      let status = try file.status()
      guard status.linkCount > 0 else { return nil }
      if let (user, group) = root.ownershipToGive(status) { try file.setOwner(user: user, group: group) }
      if status.permissions != root.filePermissions { try file.setPermissions(root.filePermissions) }
      return file
    } catch {
      // The error at hand is the one to report; what cannot be unlinked now, a collection takes.
      _ = try? directory.unlink(name)
      throw error
    }
  }
}

/// Names for temporary files that no other store gives: a random start, then counted.
final class TemporaryNames: Sendable {
  /// Of up to fifteen digits, which are a string without an allocation.
  private let counter = Atomic(UInt64.random(in: 0..<1 << 60))

  func next() -> String {
    TemporaryFile.prefix + String(counter.wrappingAdd(1, ordering: .relaxed).newValue, radix: 16)
  }
}
