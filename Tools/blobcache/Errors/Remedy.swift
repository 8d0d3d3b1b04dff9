internal import BlobStore
internal import Posix
internal import SystemPackage

/// Advice on how to resolve a failure, if its error determines it.
enum Remedy {
  static let ofDamage = "`blobcache dump` shows the bytes, `remove` or `verify --repair remove` removes the file"

  static func text(for error: BlobStoreError) -> String? {
    switch error.code {
    case .directoryMissing: "check the path; store and import make a directory"
    case .sourceMissing: "check the path"
    case .worldWritableDirectory: "--allow-world-writable uses it all the same"
    case .lockCountOverflow: "unlock --force takes all locks off"
    case .busy: "try again"
    case .sharedMemoryRequired:
      "on the machine that has the volume, run collect --unpack and configure --packing off, end all programs, and remove .packs"
    case .limitReached: "unlock or remove blobs, or raise the limit"
    case .payloadTooLarge: "nothing was stored, and an earlier blob stays"
    case .damaged: ofDamage
    case .layoutMismatch: "without --naming and --flat, the directory's own hold"
    case .fileSystem: error.errno.flatMap { text(for: $0, at: error.path) }
    default: nil
    }
  }

  /// - Parameter path: The path that the system call operated on.
  static func text(for errno: Errno, at path: FilePath?) -> String? {
    switch errno {
    case .noSuchFileOrDirectory: "check the path"
    case .noSpace:
      path.flatMap(hasNoInodes) == true
        ? "no inodes are left, though there may be bytes: `df -i` shows them, and each removed blob frees one"
        : makesRoom
    case .diskQuotaExceeded: makesRoom
    case .readOnlyFileSystem: "the volume is mounted read-only"
    case .tooManyOpenFiles: "raise the process's limit, `ulimit -n`"
    case .fileTooLarge: "raise the process's limit of file sizes, `ulimit -f`"
    case .ioError: "the medium may be failing: see the kernel's log"
    default: nil
    }
  }

  private static let makesRoom = "blobcache collect, with --size-limit or --empty-bin, makes room"

  /// Returns whether the volume of a path has no free inode.
  private static func hasNoInodes(_ path: FilePath) -> Bool {
    var place = path
    while !place.isEmpty {
      // If a directory cannot be opened, its parent may provide the number.
      if let directory = try? Directory(at: place, files: Files()), let free = try? directory.freeInodes() {
        return free == 0
      }
      guard place.removeLastComponent() else { break }
    }
    return false
  }
}
