import Posix
import SystemPackage
import Testing

@testable import BlobStore

@Suite struct DraftAttemptsTests {
  private func error(_ call: SystemCall, _ errno: Errno) -> FileError { FileError(call, Location("file"), errno) }

  /// The attempts of a store whose payload is in memory.
  private let all = DraftAttempts(mayRecycle: true, canWriteAgain: true)
  /// The attempts of a store that reads from a pipe.
  private let once = DraftAttempts(mayRecycle: false, canWriteAgain: false)

  @Test func whatIsReadOnceGetsANameAtOnce() {
    #expect(all.mayRecycle && all.mayBeUnnamed)
    #expect(!once.mayRecycle && !once.mayBeUnnamed)
  }

  @Test(arguments: [SystemCall.rename, .renameExchange, .renameNoReplace, .lease])
  func aRecycledFileThatDoesNotGetItsPlaceIsFollowedByANewOne(call: SystemCall) {
    var attempts = all
    let step = attempts.step(after: error(call, .improperLink), of: .recycled, refusesUnnamed: false)
    #expect(step == .again)
    #expect(!attempts.mayRecycle && attempts.mayBeUnnamed)

    attempts = all
    #expect(attempts.step(after: error(call, .improperLink), of: .named, refusesUnnamed: false) == .giveUp)
    #expect(attempts == all)
  }

  @Test(arguments: [Errno.permissionDenied, .notPermitted]) func aBinThatMayNotBeRenamedFromIsRefused(errno: Errno) {
    var attempts = all
    #expect(attempts.step(after: error(.rename, errno), of: .recycled, refusesUnnamed: false) == .refuseBin)
    #expect(!attempts.mayRecycle)
  }

  @Test func aRecordThatIsUnfitForRecyclingGetsANewFile() {
    var attempts = all
    #expect(attempts.step(after: UnfitForRecycling(), of: .recycled, refusesUnnamed: false) == .again)
    #expect(!attempts.mayRecycle && attempts.mayBeUnnamed)
  }

  @Test func whereFilesWithoutANameGetNoneTheyAreMadeWithOne() {
    var attempts = all
    let failure = error(.linkUnnamed, .noSuchFileOrDirectory)
    #expect(attempts.step(after: failure, of: .unnamed, refusesUnnamed: true) == .again)
    #expect(attempts.mayRecycle && !attempts.mayBeUnnamed)
  }

  @Test(arguments: [DraftAttempts.Kind.recycled, .unnamed]) func aMissingDirectoryIsHeldByAFileWithAName(
    kind: DraftAttempts.Kind
  ) {
    var attempts = all
    let failure = error(.linkUnnamed, .noSuchFileOrDirectory)
    #expect(attempts.step(after: failure, of: kind, refusesUnnamed: false) == .lookAgain)
    #expect(!attempts.mayRecycle && !attempts.mayBeUnnamed)
  }

  @Test func aPayloadIsWrittenAgainThreeTimes() {
    var attempts = all
    let failure = error(.rename, .noSuchFileOrDirectory)
    for _ in 0..<3 { #expect(attempts.step(after: failure, of: .named, refusesUnnamed: false) == .lookAgain) }
    #expect(attempts.step(after: failure, of: .named, refusesUnnamed: false) == .giveUp)

    attempts = once
    #expect(attempts.step(after: failure, of: .named, refusesUnnamed: false) == .giveUp)
  }

  @Test func aSubdirectoryIsMadeAgainHoweverThePayloadComes() {
    for attempts in [all, once] {
      var attempts = attempts
      let failure = error(.open, .noSuchFileOrDirectory)
      for _ in 0..<DraftAttempts.remakes {
        #expect(attempts.step(after: failure, of: nil, refusesUnnamed: false) == .lookAgain)
      }
      #expect(attempts.step(after: failure, of: nil, refusesUnnamed: false) == .giveUp)
    }
  }

  @Test(arguments: [Errno.noSpace, .diskQuotaExceeded]) func roomIsMadeForWhatCanBeWrittenAgain(errno: Errno) {
    var attempts = all
    #expect(attempts.step(after: error(.write, errno), of: .unnamed, refusesUnnamed: false) == .makeRoom)
    #expect(attempts.step(after: error(.rename, errno), of: .recycled, refusesUnnamed: false) == .makeRoom)
    #expect(attempts == all)

    attempts = once
    #expect(attempts.step(after: error(.open, errno), of: nil, refusesUnnamed: false) == .makeRoom)
    #expect(attempts.step(after: error(.write, errno), of: .named, refusesUnnamed: false) == .giveUp)
  }

  @Test func whateverElseGoesWrongIsAnError() {
    var attempts = all
    struct Other: Error {}
    #expect(attempts.step(after: Other(), of: .unnamed, refusesUnnamed: true) == .giveUp)
    #expect(attempts.step(after: error(.write, .ioError), of: .recycled, refusesUnnamed: true) == .giveUp)
    #expect(attempts == all)
  }
}
