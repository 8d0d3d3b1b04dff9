/// A command line that a subcommand's help ends with, and what it is for.
struct Example {
  let meaning: String
  let command: String

  init(_ meaning: String, _ command: String) {
    self.meaning = meaning
    self.command = command
  }

  /// The last part of a help.
  static func text(_ examples: [Example]) -> String {
    "EXAMPLES:\n" + examples.map { "  \($0.meaning):\n    $ \($0.command)\n" }.joined()
  }
}
