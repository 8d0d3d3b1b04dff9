internal import ArgumentParser
internal import BlobCacheCommands
internal import FuzzSupport

/// Any arguments to the tool: they are understood, or refused as wrong usage with a message. Values with a grammar of
/// their own are taken exactly where the grammar allows them. Nothing is run.
@main
struct FuzzArguments {
  static func main() {
    FuzzTarget.run { data, count in
      // What comes from a shell is text; the tool refuses the rest before it looks at it.
      let text = String(decoding: UnsafeBufferPointer(start: data, count: count), as: UTF8.self)
      FuzzArguments.testLine(text)
      FuzzArguments.testValue(text)
      return 0
    }
  }

  /// The text as a whole command line, an argument to each line.
  static func testLine(_ text: String) {
    let arguments = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    guard let error = refusal(of: arguments) else { return }
    // Asking for help is refused too, in a way: with 0.
    let status = BlobCacheTool.exitCode(for: error).rawValue
    require(status == 64 || status == 0, "exit status \(status)")
    require(!BlobCacheTool.fullMessage(for: error).isEmpty, "a refusal without a word")
  }

  /// The text as the value of each option that takes one of a grammar.
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
