internal import ArgumentParser
internal import Foundation

/// Uses a cache from one process for a long time, with failing calls, and counts the resources that it holds.
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

  /// A planted leak, to verify that a run detects it.
  enum LeakPlant: String, CaseIterable, ExpressibleByArgument {
    case descriptor, thread, memory, file
  }

  private static let rounds = 10
  /// The bytes of memory that may be added after the first half of the rounds. Allocators vary by less. A leak of a
  /// few hundred bytes per operation exceeds it even in the short form.
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
