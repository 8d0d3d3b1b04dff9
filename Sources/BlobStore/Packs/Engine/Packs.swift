internal import Posix

/// The packs of a directory and the index in force, as a process has them open.
final class Packs: Sendable {
  let index: PackIndex
  let files: PackFiles
  let control: ControlFile

  init(_ index: PackIndex, _ files: PackFiles, _ control: ControlFile) {
    self.index = index
    self.files = files
    self.control = control
  }

  /// Whether the index is still in force. If not, what was read by it, or changed in it, does not count.
  var isInForce: Bool { control.packIndexNumber == index.number }
}
