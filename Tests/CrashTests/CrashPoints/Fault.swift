/// A fault that `crashat` injects at a call.
struct Fault: CustomStringConvertible {
  enum Kind: Hashable {
    case none
    case kill
    case fail(String, once: Bool)
    case short(Int)
    case torn(Int)
    case hold(other: String, untilEnd: Bool, thenKill: Bool)
  }

  var call: Int
  var kind: Kind

  static let none = Fault(call: 0, kind: .none)

  var arguments: [String] {
    switch kind {
    case .none: return []
    case .kill: return at("kill")
    case .fail(let error, let once): return at("\(once ? "fail" : "fail-on")=\(error)")
    case .short(let count): return at("short=\(count)")
    case .torn(let count): return at("torn=\(count)")
    case .hold(let other, let untilEnd, let thenKill):
      return at("hold") + [
        "--other", other, "--until", untilEnd ? "end" : "blocked", "--after", thenKill ? "kill" : "continue",
      ]
    }
  }

  private func at(_ action: String) -> [String] { ["--at", String(call), "--action", action] }

  var description: String {
    switch kind {
    case .none: "no fault"
    case .kill: "kill at call \(call)"
    case .fail(let error, let once): "\(error) at call \(call)\(once ? "" : " and from then on")"
    case .short(let count): "\(count) bytes at call \(call)"
    case .torn(let count): "killed after \(count) bytes of call \(call)"
    case .hold(let other, let untilEnd, let thenKill):
      "held at call \(call)\(untilEnd ? " to the end" : "")\(thenKill ? " and killed" : "") for \(other)"
    }
  }

  /// A Boolean value that indicates whether the fault ends the process before it can report.
  var kills: Bool {
    switch kind {
    case .kill, .torn, .hold(_, _, thenKill: true): true
    default: false
    }
  }

  /// A Boolean value that indicates whether callers must not notice the fault, like interruptions and short transfers.
  var mustBeInvisible: Bool {
    switch kind {
    case .none, .short, .fail("EINTR", once: true): true
    default: false
    }
  }
}
