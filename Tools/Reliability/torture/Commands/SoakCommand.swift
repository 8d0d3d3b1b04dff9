internal import ArgumentParser
internal import Foundation

/// One process that uses a cache for long, with calls that fail in between, and counts what it holds.
struct SoakCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "soak",
    abstract: "Use a directory from one process for long, and check that nothing leaks.",
    discussion: """
      Descriptors, threads, memory and files are counted after each tenth of the operations, once its threads have \
      ended and its stores are gone. Prints one object of JSON. Exit status 0: nothing grows; 1: something does.
      """)

  @Option(help: "Operations of all threads together.") var operations = 100_000
  @Option(help: "Threads.") var threads = 4
  @Option(help: "What the choices are made from; drawn if not given, and printed.") var seed: UInt64 = .random(
    in: 0 ... .max)
  @Option(help: "A directory to make.") var directory: String
  @Option(help: "Something to leak on purpose.") var plant: LeakPlant?

  /// Something that grows, so that a run shows that it would find it.
  enum LeakPlant: String, CaseIterable, ExpressibleByArgument {
    case descriptor, thread, memory, file
  }

  private static let rounds = 10
  /// How many bytes of memory may be added after the first half of the rounds. Memory that allocators keep varies by
  /// less. A leak of some hundred bytes an operation shows even in the short form.
  private static let memorySlack = 8 << 20

  func validate() throws {
    guard operations >= Self.rounds * threads, threads > 0 else {
      throw ValidationError("--operations must be at least \(Self.rounds) for each thread")
    }
  }

  func run() throws {
    guard !FileManager.default.fileExists(atPath: directory) else {
      throw TortureFailure("\(directory) exists already")
    }
    writeError("torture soak --operations \(operations) --threads \(threads) --seed \(seed)")
    var report = SoakReport(seed: seed)
    let began = TortureClock.nanoseconds
    do {
      for round in 0..<Self.rounds {
        let result = try SoakRound(
          directory: directory, threads: threads, operations: operations / Self.rounds / threads,
          seed: seed &+ UInt64(round), plant: plant
        ).run()
        report.operations += result.operations
        report.failedCalls += result.failedCalls
        report.wrongAnswers += result.wrongAnswers
        report.holdings.append(try SoakHoldings(of: directory))
      }
    } catch {
      writeError("\(error)")
      throw ExitCode(2)
    }
    report.seconds = Double(TortureClock.nanoseconds - began) / 1e9
    report.judge(memorySlack: Self.memorySlack)
    print(String(decoding: try JSONEncoder().encode(report), as: UTF8.self))
    guard report.leaks.isEmpty, report.wrongAnswers == 0 else { throw ExitCode(1) }
  }
}
