import Foundation
import Synchronization

/// The requests of a fleet's clients with their responses, in an order that the clients observed.
final class FleetHistory: Sendable {
  struct Operation: Sendable, Equatable, CustomStringConvertible {
    enum Kind: Sendable, Equatable {
      /// A put of the blob with a unique number.
      case put(Int)
      case remove
      /// A get with the number of the returned blob, or `nil` for a miss.
      case get(Int?)
    }

    var kind: Kind
    var node: Int
    var key: Int
    var start: Int
    /// The end of the operation, or `Int.max` without a response. Then it may take effect at any time, or never.
    var end: Int

    var description: String { "\(kind) of \(key) at \(node) [\(start), \(end == .max ? "…" : "\(end)")]" }
  }

  /// A period of a node, such as from a kill to the restart.
  struct Span: Sendable {
    var node: Int
    var start: Int
    var end: Int
  }

  struct Record: Sendable {
    var operations: [Operation] = []
    var restarts: [Span] = []
    /// The periods of requests that ended without a response, as is possible if their node is killed.
    var unanswered: [Span] = []
    /// Responses that no history permits.
    var mistakes: [String] = []
  }

  private let time = Counter()
  private let numbers = Counter()
  private let record = Mutex(Record())

  /// - Parameter start: A time before all recorded operations.
  init(after start: Int = 0) { _ = time.increment(by: start) }

  var recorded: Record { record.withLock { $0 } }

  func tick() -> Int { time.increment() }

  /// Returns the blob of a number, which begins with the number.
  static func blob(_ number: Int) -> Data {
    // Every tenth blob is large enough to be sent in pieces.
    Data("\(number) ".utf8) + Records.bytes(number % 10 == 9 ? 200_000 : number * 7919 % 3000, seed: UInt64(number))
  }

  func add(_ kind: Operation.Kind, node: Int, key: Int, start: Int, end: Int) {
    record.withLock {
      $0.operations.append(Operation(kind: kind, node: node, key: key, start: start, end: end))
    }
  }

  func addRestart(of node: Int, start: Int) {
    let restart = Span(node: node, start: start, end: tick())
    record.withLock { $0.restarts.append(restart) }
  }

  // MARK: - Clients

  /// Puts a new blob, removes, or gets, and records the result.
  ///
  /// - Parameter choice: A number from 0 to 99.
  /// - Returns: `false` if no server listens at the port.
  func ask(_ choice: Int, node: Int, port: Int, key: Int) -> Bool {
    var kind = Operation.Kind.get(nil)
    var (method, body) = ("GET", Data())
    switch choice {
    case 0..<25:
      let number = numbers.increment()
      (kind, method, body) = (.put(number), "PUT", Self.blob(number))
    case 25..<38: (kind, method) = (.remove, "DELETE")
    default: break
    }
    let start = tick()
    var end = Int.max
    do {
      let reply = try Reply(from: Connection(to: port), method, "/v1/blobs/\(key)", [:], body)
      end = tick()
      if case .get = kind, reply.status == 200 { kind = .get(number(in: reply.body, node, key)) }
      let expected = ["GET": [200, 404], "PUT": [201, 204], "DELETE": [204, 404]][method] ?? []
      if !expected.contains(reply.status) {
        record.withLock {
          $0.mistakes.append("\(method) of \(key) at \(node) is answered \(reply.status): \(reply.text)")
        }
      }
    } catch is Reply.NoConnection {
      return false
    } catch {
      let span = Span(node: node, start: start, end: tick())
      record.withLock { $0.unanswered.append(span) }
      // A get without a response has no information.
      if case .get = kind { return true }
    }
    add(kind, node: node, key: key, start: start, end: end)
    return true
  }

  private func number(in body: Data, _ node: Int, _ key: Int) -> Int? {
    let text = String(decoding: body.prefix { $0 != UInt8(ascii: " ") }, as: UTF8.self)
    guard let number = Int(text), body == Self.blob(number) else {
      record.withLock {
        $0.mistakes.append("node \(node) answers \(key) with bytes that nobody put: \(text.prefix(40))")
      }
      return nil
    }
    return number
  }
}
