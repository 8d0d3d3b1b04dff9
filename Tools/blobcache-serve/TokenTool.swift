#if Server
  internal import ArgumentParser
  internal import BlobCacheServer

  /// Creates a token. The server recognizes it by the line that is printed after it.
  struct TokenTool: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "blobcache-serve token", abstract: "Make a token for a server's callers.",
      discussion: """
        Prints two lines: the token, which callers send as `Authorization: Bearer TOKEN`, or as the password of Basic; \
        and its line for the file of --tokens. The file has digests alone, so it shows no token. SIGHUP has the server \
        read it again.
        """)

    @Argument(help: ArgumentHelp("For the server's log, such as ci.", valueName: "name"))
    var name: String

    @Option(
      parsing: .unconditional,
      help: ArgumentHelp("What it allows: read, write, pin and admin, with commas between them.", valueName: "scopes"))
    var scopes = "read"

    @Option(
      parsing: .unconditional, help: ArgumentHelp("It allows keys that begin so; else all.", valueName: "text"))
    var keyPrefix = ""

    func validate() throws {
      guard AccessToken.isName(name) else {
        throw ValidationError("The name must be printable ASCII without blanks, and not begin with #.")
      }
      guard AccessScope.set(scopes) != nil else {
        throw ValidationError("The scopes must be of read, write, pin and admin, with commas between them.")
      }
    }

    func run() {
      let secret = AccessToken.makeSecret()
      let token = AccessToken(
        name: name, secret: secret, scopes: AccessScope.set(scopes) ?? [], keyPrefix: keyPrefix)
      print(secret)
      print(token.line)
    }
  }
#endif
