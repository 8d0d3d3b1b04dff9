internal import ArgumentParser
internal import SystemPackage

/// The result of a subcommand as its exit status, of which the larger one takes precedence.
package enum Answer: Int32, Comparable {
  case done = 0
  /// The answer is no: absent, damaged, not locked.
  case no = 1
  case failed = 2

  package static func < (a: Answer, b: Answer) -> Bool { a.rawValue < b.rawValue }

  mutating func worsen(to answer: Answer) {
    self = max(self, answer)
  }
}

/// A subcommand that prints results and returns an exit status.
protocol Subcommand: ParsableCommand {
  /// The examples at the end of the help.
  static var examples: [Example] { get }

  func answer(_ output: inout Output) throws -> Answer

  /// Reports the directory's owner if it may be the cause of the error.
  func reportOwner(after error: any Error)
}

protocol DirectorySubcommand: Subcommand {
  var directory: FilePath { get }
}

extension DirectorySubcommand {
  func reportOwner(after error: any Error) { ChangeOfOwner.report(directory, after: error) }
}

extension Subcommand {
  func reportOwner(after error: any Error) {}

  func run() throws {
    var output = Output()
    var status = Answer.failed
    do {
      status = try answer(&output)
    } catch let error as UsageError {
      throw ValidationError(error.description)
    } catch {
      // ArgumentParser would exit with 1, which means "no" here.
      StandardError.report(Self.text(of: error))
      reportOwner(after: error)
    }
    // Results that precede a failure are still printed.
    output.flush()
    if status != .done { throw ExitCode(status.rawValue) }
  }
}
