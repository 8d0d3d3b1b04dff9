internal import Posix
internal import SystemPackage

/// A way down from a directory: each step leads to a subdirectory of the one before, and back.
///
/// However deep it leads, only the lowest directories are open. One above them is opened again, from the top, when the way
/// leads back to it, and must be the one that it was.
struct DirectoryDescent {
  private struct Step {
    let name: String
    let deviceID: DeviceID
    let inode: Inode
    /// nil while others below it are open.
    var directory: OpenSubdirectory?
  }

  /// Directories that are open, besides the first.
  static let openCount = 16

  private let top: OpenSubdirectory
  private var steps: [Step] = []
  /// The path below the first directory: empty there, else with a slash at its end.
  private(set) var prefix = ""

  init(from top: consuming Directory) {
    self.top = OpenSubdirectory(top)
  }

  /// Where it has led to.
  ///
  /// - Throws: ENOENT if that is not there any more.
  mutating func current() throws(FileError) -> OpenSubdirectory {
    guard let last = steps.indices.last else { return top }
    if let directory = steps[last].directory { return directory }
    var depth = steps.lastIndex { $0.directory != nil } ?? -1
    while depth < last {
      let upper = depth < 0 ? top : steps[depth].directory ?? top
      depth += 1
      steps[depth].directory = try Self.reopened(steps[depth], in: upper.directory)
      closeOthers(than: depth)
    }
    return steps[last].directory ?? top
  }

  private static func reopened(_ step: Step, in upper: borrowing Directory) throws(FileError) -> OpenSubdirectory {
    guard let found = try upper.openSubdirectory(step.name) else { throw missing(step, in: upper) }
    let status = try found.status()
    guard status.deviceID == step.deviceID, status.inode == step.inode else { throw missing(step, in: upper) }
    return OpenSubdirectory(found)
  }

  private static func missing(_ step: Step, in upper: borrowing Directory) -> FileError {
    FileError(.openDirectory, Location(upper.path, step.name), .noSuchFileOrDirectory)
  }

  private mutating func closeOthers(than depth: Int) {
    if depth >= Self.openCount { steps[depth - Self.openCount].directory = nil }
  }

  /// Goes down.
  ///
  /// - Returns: false if the name is no directory's: a link's, for example.
  mutating func descend(to name: String) throws(FileError) -> Bool {
    let upper = try current()
    let opened: Directory?
    do {
      opened = try upper.directory.openSubdirectory(name)
    } catch {
      guard [.notDirectory, .tooManySymbolicLinkLevels].contains(error.errno) else { throw error }
      return false
    }
    guard let opened else { return false }
    let status = try opened.status()
    steps.append(
      Step(name: name, deviceID: status.deviceID, inode: status.inode, directory: OpenSubdirectory(opened)))
    prefix += name + "/"
    closeOthers(than: steps.count - 1)
    return true
  }

  /// Goes back up.
  mutating func ascend() {
    guard let step = steps.popLast() else { return }
    prefix.unicodeScalars.removeLast(step.name.unicodeScalars.count + 1)
  }
}
