import Foundation
import Synchronization

/// What clients of a fleet have asked and were answered, in an order that the clients have seen.
final class FleetHistory: Sendable {
  struct Operation: Sendable, Equatable, CustomStringConvertible {
    enum Kind: Sendable, Equatable {
      /// Of a blob that no other put has: a number.
      case put(Int)
      case remove
      /// And what was answered; nil for nothing.
      case get(Int?)
    }

    var kind: Kind
    var node: Int
    var key: Int
    var start: Int
    /// `Int.max` where no answer came: it may take effect at any time, or never.
    var end: Int

    var description: String { "\(kind) of \(key) at \(node) [\(start), \(end == .max ? "…" : "\(end)")]" }
  }

  /// A part of a node's time, such as from when it was killed until it served again.
  struct Span: Sendable {
    var node: Int
    var start: Int
    var end: Int
  }

  struct Record: Sendable {
    var operations: [Operation] = []
    var restarts: [Span] = []
    /// Requests that ended without an answer, which those of a node that is killed may: when they began, and ended.
    var unanswered: [Span] = []
    /// Answers that no history allows.
    var mistakes: [String] = []
  }

  private let time = Counter()
  private let numbers = Counter()
  private let record = Mutex(Record())

  /// - Parameter start: before all that it records.
  init(after start: Int = 0) { _ = time.increment(by: start) }

  var recorded: Record { record.withLock { $0 } }

  func tick() -> Int { time.increment() }

  /// The blob of a number, which tells the number.
  static func blob(_ number: Int) -> Data {
    // Every tenth is long enough to go in pieces.
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

  /// Puts a new blob, removes, or gets, and notes what becomes of it.
  ///
  /// - Parameter choice: from 0 to 99.
  /// - Returns: false if nothing listens.
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
      // A get without an answer tells nothing.
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
