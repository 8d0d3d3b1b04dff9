import BlobStore
import FaultOperations

/// Checks the use after a power cut: the cache works without a repair, and a collection cleans up.
enum Sequel {
  static func violations(in state: DirectoryState, _ store: BlobStore, _ settings: StoreSettings) throws -> [String] {
    var violations: [String] = []
    var expected = state
    func follow(_ operation: FaultOperation) {
      let result = operation.run(store)
      for key in Set(expected.keys.keys).union([CrashScript.subject]).sorted() {
        let steps = OperationModel.steps(operation, on: key, in: expected[key], isDisturbed: false)
        if let step = steps.first(where: { $0.result == nil || $0.result == result.essence }) {
          expected.keys[key] = step.state == .absent ? nil : step.state
        } else {
          violations.append("then \(operation) of \(expected[key]) answers \(result)")
        }
      }
      if result.outcome == .failed { violations.append("then \(operation): \(result)") }
    }
    let key = CrashScript.subject
    // Damaged records are removed, because operations treat damage of header and payload differently.
    for damaged in state.keys.filter({ [.damaged, .abandoned].contains($0.value) }).keys.sorted() {
      follow(.remove(damaged))
    }
    follow(.lock(key))
    follow(.store(key, PayloadName("sequel", 700), locks: .keep))
    follow(.lock(key))
    follow(.load(key, touching: true))
    follow(.unlock(key))
    follow(.collect(evicting: false))
    let after = try DirectoryState(inspecting: settings)
    if after.keys != expected.keys { violations.append("after all, \(after.keys), not \(expected.keys)") }
    // After a removal, no hidden record reappears.
    follow(.remove(key))
    follow(.load(key, touching: false))
    if !after.temporary.isEmpty { violations.append("a collection leaves \(after.temporary)") }
    return violations
  }
}
