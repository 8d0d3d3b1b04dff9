/// What a probe writes when its operation has ended.
public struct ProbeReport: Codable, Sendable {
  public var type = "result"
  public var result: OperationResult
  /// Measured while the store was still open.
  public var held: HeldResources
  public var seconds: Double
  /// The system calls and the steps in shared memory, where they were asked for.
  public var steps: [String]?

  public init(result: OperationResult, held: HeldResources, seconds: Double, steps: [String]? = nil) {
    self.result = result
    self.held = held
    self.seconds = seconds
    self.steps = steps
  }
}
