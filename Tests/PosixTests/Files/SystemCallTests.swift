import Posix
import Testing

@Suite struct SystemCallTests {
  @Test(arguments: SystemCall.allCases.filter { !$0.isStep }) func everyCallNamesItsManualPage(call: SystemCall) {
    let page = call.manualPage
    let name = page.prefix { $0 != "(" }
    #expect(!name.isEmpty && name.allSatisfy { $0.isLowercase || $0.isNumber || $0 == "_" })
    #expect(["(2)", "(3)"].contains(page.dropFirst(name.count)))
  }

  /// An addition to this list needs a reason in Spec/Performance.md.
  @Test func fewCallsNeverWait() {
    #expect(SystemCall.allCases.filter { !$0.mayWait } == [.openCached, .close, .status, .readCached])
  }
}
