/// An example at the end of a subcommand's help: a command line and its purpose.
struct Example {
  let meaning: String
  let command: String

  init(_ meaning: String, _ command: String) {
    self.meaning = meaning
    self.command = command
  }

  /// Returns the section of a help text that lists examples.
  static func text(_ examples: [Example]) -> String {
    "EXAMPLES:\n" + examples.map { "  \($0.meaning):\n    $ \($0.command)\n" }.joined()
  }
}
