internal import Posix

/// Room in the recycling bin for one file, which is counted already.
struct ReservedRoom {
  let bin: RecyclingBin
  let control: ControlFile
  let file: DisplacedFile

  /// Moves the file in; the room is given back if that fails.
  func put(_ name: String, in directory: borrowing Directory) throws(FileError) {
    try bin.put(name, in: directory, file, control)
  }

  func giveBack() { control.countRecycled(files: -1, bytes: -file.byteCount) }
}
