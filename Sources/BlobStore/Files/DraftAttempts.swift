internal import Posix
internal import SystemPackage

/// The ways in which a store may still try to write its record. Each error excludes some, without a system call.
///
/// They are tried in the order of their costs: a pack, a recycled file, an unnamed file, a file with a temporary
/// name.
struct DraftAttempts: Equatable {
  enum Kind {
    case packed, recycled, unnamed, named
  }

  private(set) var mayPack: Bool
  private(set) var mayRecycle: Bool
  private(set) var mayBeUnnamed: Bool
  private let canWriteAgain: Bool
  private var remakesLeft = DraftAttempts.remakes
  private var rewritesLeft = DraftAttempts.rewrites

  /// The number of times that a removed empty subdirectory is created again. It exceeds the number of collections
  /// that can run in the meantime, and is finite in case the file system misbehaves.
  static let remakes = OpenRoot.removalsOutlasted

  /// The number of times that a payload is written again because its file or directory was removed.
  static let rewrites = 3

  /// Recycling needs a complete header before the payload is written. Packing needs the whole record in memory.
  init(mayRecycle: Bool, canWriteAgain: Bool, mayPack: Bool = false) {
    self.mayPack = mayPack
    self.mayRecycle = mayRecycle
    self.canWriteAgain = canWriteAgain
    mayBeUnnamed = canWriteAgain
  }

  enum Step: Equatable {
    case again
    /// Stop using the recycling bin for later stores too, and try again.
    case refuseBin
    /// Check the root and the subdirectory again, and try again.
    case lookAgain
    /// Try again if space can be freed. Otherwise, a packed record is stored as a file.
    case makeRoom
    /// Try again once the index of the packs has grown. If it cannot grow, store the record as a file.
    case growIndex
    case giveUp
  }

  /// Returns the next step after an error, and excludes the ways that the error rules out.
  mutating func step(after error: any Error, of draft: Kind?, refusesUnnamed: Bool) -> Step {
    if error is IndexIsFull { return .growIndex }
    // If this process can take no stripes, storing a file fails with the same error.
    if error is PacksAreFull || draft == .packed && error is Session.Obstacle {
      refusePacks()
      return .again
    }
    if error is UnfitForRecycling {
      mayRecycle = false
      return .again
    }
    guard let error = error as? FileError else { return .giveUp }
    if draft == .recycled, error.mayBeOfRecycledFilesOnly {
      // The file may be on another volume, its lease may be revoked, or the bin may not allow renaming.
      mayRecycle = false
      return error.isLackOfPermission ? .refuseBin : .again
    }
    if draft == .unnamed, error.call == .linkUnnamed, refusesUnnamed {
      mayBeUnnamed = false
      return .again
    }
    if error.isLackOfDirectory { return stepWithoutDirectory(draft) }
    if error.isLackOfRoom { return canWriteAgain || draft == nil || draft == .packed ? .makeRoom : .giveUp }
    return .giveUp
  }

  mutating func refusePacks() { mayPack = false }

  /// Decides after the subdirectory, the recycled file or the root was removed, for example by a collection.
  private mutating func stepWithoutDirectory(_ draft: Kind?) -> Step {
    switch draft {
    case .recycled, .unnamed:
      // A named file keeps its subdirectory from being empty.
      (mayRecycle, mayBeUnnamed) = (false, false)
    case .named:
      guard canWriteAgain, rewritesLeft > 0 else { return .giveUp }
      rewritesLeft -= 1
    case .packed, nil:
      guard remakesLeft > 0 else { return .giveUp }
      remakesLeft -= 1
    }
    return .lookAgain
  }
}

/// An error that indicates that a record in a recycled file needs a new file.
///
/// There are three reasons: the existing record is locked, so the new one must be on the medium before it replaces
/// it; the previous content of the file must not reappear after a power failure; or another program has created a
/// file at the path.
struct UnfitForRecycling: Error {}

extension FileError {
  /// A Boolean value that indicates whether a call that failed for a recycled file may succeed for a new one.
  fileprivate var mayBeOfRecycledFilesOnly: Bool {
    [.rename, .renameExchange, .renameNoReplace, .lease].contains(call) && !isLackOfRoom && !isLackOfDirectory
  }

  var isLackOfPermission: Bool { [.permissionDenied, .notPermitted].contains(errno) }

  fileprivate var isLackOfDirectory: Bool { errno == .noSuchFileOrDirectory }
}
