internal import ArgumentParser
internal import BlobCacheCommands
internal import FuzzSupport

/// The tool either accepts arbitrary arguments or rejects them as wrong usage with a message. Values with a grammar
/// are accepted exactly if they match the grammar. No command is executed.
@main
struct FuzzArguments {
  static func main() {
    FuzzTarget.run { data, count in
      // Arguments from a shell are text. The tool rejects invalid UTF-8 before it parses arguments.
      let text = String(decoding: UnsafeBufferPointer(start: data, count: count), as: UTF8.self)
      FuzzArguments.testLine(text)
      FuzzArguments.testValue(text)
      return 0
    }
  }

  /// Parses the text as a complete command line with one argument per line.
  static func testLine(_ text: String) {
    let arguments = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    guard let error = refusal(of: arguments) else { return }
    // Requests for help also end the parsing with an error, whose exit status is 0.
    let status = BlobCacheTool.exitCode(for: error).rawValue
    require(status == 64 || status == 0, "exit status \(status)")
    require(!BlobCacheTool.fullMessage(for: error).isEmpty, "a refusal without a word")
  }

  /// Passes the text to each option whose value has a grammar.
  static func testValue(_ text: String) {
    let taken = PlantedBug.active == .acceptsSigns ? text.trimmingPrefix { $0 == "+" || $0 == "-" } : text[...]
    for value in ReferenceValue.allCases {
      let isTaken = refusal(of: value.arguments(String(taken))) == nil
      guard let isValid = value.accepts(text) else { continue }
      require(isTaken == isValid, "\(value): \(text.debugDescription) \(isTaken ? "was taken" : "was refused")")
    }
  }

  static func refusal(of arguments: [String]) -> (any Error)? {
    do {
      _ = try BlobCacheTool.parseAsRoot(arguments)
      return nil
    } catch {
      return error
    }
  }
}

extension StringProtocol {
  fileprivate func trimmingPrefix(while predicate: (Character) -> Bool) -> Substring {
    Substring(drop(while: predicate))
  }
}
