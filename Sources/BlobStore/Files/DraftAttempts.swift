internal import Posix
internal import SystemPackage

/// Which way a store tries next to put its record in its place.
///
/// A value that learns from the last error alone, and makes no call. The cheapest way comes first: a pack, a file of the
/// recycling bin, then one without a name, then one with a name beside the record's.
struct DraftAttempts: Equatable {
  /// How a draft was made, which decides what its errors may mean.
  enum Kind {
    case packed, recycled, unnamed, named
  }

  /// Whether the record may lie in a pack.
  private(set) var mayPack: Bool
  /// Whether a file of the recycling bin may be overwritten.
  private(set) var mayRecycle: Bool
  /// Whether a file without a name may be made.
  private(set) var mayBeUnnamed: Bool
  /// Whether the payload can be had once more.
  private let canWriteAgain: Bool
  private var remakesLeft = DraftAttempts.remakes
  private var rewritesLeft = DraftAttempts.rewrites

  /// How often a subdirectory is made again that was removed before anything was in it.
  ///
  /// That is more often than collections can follow each other in between, and has an end, should the file system be out
  /// of its mind.
  static let remakes = OpenRoot.removalsOutlasted

  /// How often a payload is written again, because its file or directory was removed.
  static let rewrites = 3

  /// - Parameters:
  ///   - mayRecycle: whether the header has the payload's size and checksum before the payload is written.
  ///   - canWriteAgain: whether the payload can be had more than once.
  ///   - mayPack: whether the whole record is in memory.
  init(mayRecycle: Bool, canWriteAgain: Bool, mayPack: Bool = false) {
    self.mayPack = mayPack
    self.mayRecycle = mayRecycle
    self.canWriteAgain = canWriteAgain
    mayBeUnnamed = canWriteAgain
  }

  /// The next step after a failed attempt.
  enum Step: Equatable {
    /// Try again.
    case again
    /// Use the recycling bin no more, and try again.
    case refuseBin
    /// Look at the root and the subdirectory again, and try again.
    case lookAgain
    /// Try again if room can be made. A record that was to be packed is a file otherwise.
    case makeRoom
    /// Try again once the index of the packs has grown. If it cannot, the record is a file.
    case growIndex
    /// Report the error.
    case giveUp
  }

  /// Decides from the error of an attempt.
  ///
  /// - Parameters:
  ///   - draft: what was written to; nil if nothing was made yet.
  ///   - refusesUnnamed: whether the file system gives files without a name no name.
  mutating func step(after error: any Error, of draft: Kind?, refusesUnnamed: Bool) -> Step {
    if error is IndexIsFull { return .growIndex }
    // A process that may not take stripes is told so when it takes one for the file.
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
      // A file of another volume, a lease that the kernel has taken away, a bin that nothing can be renamed from.
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

  /// The record has to be a file.
  mutating func refusePacks() { mayPack = false }

  /// The subdirectory, the recycled file or the root was removed. A collection removes empty subdirectories.
  private mutating func stepWithoutDirectory(_ draft: Kind?) -> Step {
    switch draft {
    case .recycled, .unnamed:
      // A file with a name keeps its subdirectory from being empty.
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

/// A record in a recycled file needs a new file, as a look at its place has shown.
///
/// There are three reasons: the record must be on the medium before it takes its place, because the record there is
/// locked; what the file held before must not come back with a power cut any more; or another program has put a file
/// in the place since the store looked there.
struct UnfitForRecycling: Error {}

extension FileError {
  /// Whether the call gives a recycled file its place, and might give it to a new file.
  ///
  /// It might not where there is no room or no directory.
  fileprivate var mayBeOfRecycledFilesOnly: Bool {
    [.rename, .renameExchange, .renameNoReplace, .lease].contains(call) && !isLackOfRoom && !isLackOfDirectory
  }

  /// Whether the caller may not change a directory.
  var isLackOfPermission: Bool { [.permissionDenied, .notPermitted].contains(errno) }

  fileprivate var isLackOfDirectory: Bool { errno == .noSuchFileOrDirectory }
}
