internal import ArgumentParser

/// Prints the requests of a run's workers, to verify that a seed reproduces them.
struct RequestsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "requests",
    abstract: "Print what a thread of a worker would ask for, without doing it.",
    discussion: "A line each: the operation, the key's number, the time to live of a store.")

  @Option(help: "What the choices are made from.") var seed: UInt64
  @Option(help: "Keys.") var keys = 8
  @Option(help: "The worker's number.") var worker = 0
  @Option(help: "How often it was started again.") var incarnation = 0
  @Option(help: "The thread's number.") var thread = 0
  @Option(help: "Requests.") var count = 100

  func run() {
    var requests = WorkerRequests(seed: seed, keyCount: keys, (worker, incarnation, thread))
    for _ in 0..<count {
      let request = requests.next()
      print(request.kind, request.key, request.ttl)
    }
  }
}
