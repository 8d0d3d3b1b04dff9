/// A history that no order of its operations explains.
public struct Violation: Sendable {
  /// The operation whose answer was possible in no order.
  public var operation: Operation
  /// What the key may have held just before, for all that is known.
  public var possible: [Register]
  /// The operations since the last moment when none was under way, the latest ones if they are many.
  public var window: [Operation]
  /// Whether the search was given up because too many orders were possible, so that nothing is known.
  public var isUndecided = false
}

extension Violation: CustomStringConvertible {
  public var description: String {
    var lines = [isUndecided ? "too many possible orders to decide" : "no order of the operations explains:"]
    lines.append("  \(operation)")
    lines.append("the key may have held, before what was then under way:")
    lines += possible.prefix(16).map { "  \($0)" }
    lines.append("the operations until then:")
    lines += window.map { "  \($0)" }
    return lines.joined(separator: "\n")
  }
}
