internal import PosixFiles
internal import Synchronization
internal import SystemPackage

/// A record file in the making: a new one beside the place it is to take, or a dead one in the recycling bin that is
/// overwritten. Unless it is published, a new one is removed, and a dead one stays where it is.
///
/// The writer of a new one holds a lock on it, by which a collection tells it from one whose writer is gone. A dead one
/// is leased until the call before the one that publishes it (`RecyclingBin`).
struct TemporaryFile: ~Copyable {
  /// Where it is to be published.
  let directory: Directory
  let file: OpenFile
  private let name: String
  /// Where it lies in the recycling bin; nil for a new one, which lies in `directory`.
  let recycled: RecycledPlace?
  private var isLeased: Bool
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
    var obstacle = Obstacle(call: .open, errno: .fileExists)
    var file = try Self.createLocked(name, in: directory, of: root, &obstacle)
    var triesLeft = 8
    while file == nil, triesLeft > 0 {
      name = names.next()
      file = try Self.createLocked(name, in: directory, of: root, &obstacle)
      triesLeft -= 1
    }
    guard let file = file.take() else {
      throw FileError(obstacle.call, Location(directory.path, name), obstacle.errno)
    }
    self.name = name
    self.file = file
    self.directory = directory
    recycled = nil
    isLeased = false
  }

  /// Takes a file from the recycling bin.
  init(_ file: consuming RecycledFile, in directory: consuming Directory) {
    let place = file.place
    name = place.entry.name
    recycled = place
    isLeased = true
    self.file = file.file
    self.directory = directory
  }

  deinit {
    guard !isPublished else { return }
    if let recycled {
      recycled.giveBack()
    } else {
      // The store has failed and reports why; what cannot be unlinked now, a collection takes.
      _ = try? directory.unlink(name)
    }
  }

  /// Whether it was another record's file, which nothing may be written to once it was tried to publish it.
  var isRecycled: Bool { recycled != nil }

  /// Cuts off what the file has beyond what was written to it.
  func cutOff(at byteCount: Int64) throws(FileError) {
    if let recycled, recycled.entry.byteCount > byteCount { try file.truncate(to: byteCount) }
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
    if let recycled {
      try releaseLease()
      try recycled.bin.directory.rename(name, to: fileName, in: directory)
    } else {
      try directory.rename(name, to: fileName)
    }
    isPublished = true
  }

  /// Takes the name unless something has it: for a file from the recycling bin.
  mutating func publishRecycledIfAbsent(as fileName: String) throws(FileError) {
    guard let recycled else { return try publish(as: fileName) }
    try releaseLease()
    switch try recycled.bin.directory.renameIfAbsent(name, to: fileName, in: directory) {
    case true: isPublished = true
    // Somebody who knows no stripes has put something there just now.
    case false: throw FileError(.renameNoReplace, Location(directory.path, fileName), .fileExists)
    case nil: try publish(as: fileName)
    }
  }

  /// Takes the name, and what has it goes into the recycling bin.
  ///
  /// - Parameter room: for what is displaced; given back if it is not needed.
  /// - Returns: what kept that from the bin, if something did; then it was unlinked.
  mutating func publish(as fileName: String, keepingDisplacedIn room: ReservedRoom) throws(FileError) -> FileError? {
    let isExchanged: Bool
    do throws(FileError) {
      if let recycled {
        try releaseLease()
        isExchanged = try recycled.bin.directory.exchange(name, with: fileName, in: directory)
      } else {
        isExchanged = try directory.exchange(name, with: fileName, in: directory)
      }
      if !isExchanged { try publish(as: fileName) }
    } catch {
      room.giveBack()
      throw error
    }
    isPublished = true
    guard isExchanged else {
      room.giveBack()
      return nil
    }
    if let recycled {
      recycled.didExchange(for: room.file)
      return nil
    }
    do throws(FileError) {
      try room.put(name, in: directory)
      return nil
    } catch {
      // The record is published; what cannot be unlinked now, a collection takes.
      _ = try? directory.unlink(name)
      return error
    }
  }

  /// The file is whole. From here on, nobody writes to it before it is a record.
  private mutating func releaseLease() throws(FileError) {
    guard isLeased else { return }
    isLeased = false
    try file.releaseLease()
  }
}

extension TemporaryFile {
  /// Why there is no file yet. Not an error so far, which would be allocated for every store.
  private struct Obstacle {
    var call: SystemCall
    var errno: Errno
  }

  /// - Parameter obstacle: receives why there is no file.
  /// - Returns: nil if the name was taken, or a collection came between the calls and removed the file.
  private static func createLocked(
    _ name: String, in directory: borrowing Directory, of root: RootDirectory.Opened, _ obstacle: inout Obstacle
  ) throws -> OpenFile? {
    let file: OpenFile
    do {
      file = try directory.createFile(name, permissions: root.filePermissions)
    } catch {
      guard error.errno == .fileExists else { throw error }
      obstacle = Obstacle(call: .open, errno: error.errno)
      return nil
    }
    do {
      guard try file.tryLock() else {
        obstacle = Obstacle(call: .lock, errno: .wouldBlock)
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
