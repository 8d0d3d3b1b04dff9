/// Replays a recording and computes, at each point, the states that a power cut may leave.
package struct CrashStates: Sendable {
  private let model: DiskModel
  private var durable: DiskImage
  private var pending: [DiskChange] = []

  /// - Parameter names: The names of initial files that every state omits.
  package init(of base: DiskImage, under model: DiskModel, leavingOut names: Set<String> = []) {
    self.model = model
    durable = base
    durable.leaveOut(names)
  }

  /// Applies a change.
  package mutating func apply(_ change: DiskChange) {
    if case .sync(let number, _) = change {
      let forced = model.forced(bySyncOf: number, among: pending)
      for index in forced.sorted() { durable.apply(pending[index], dataExtends: model.dataExtends) }
      for index in forced { dropWhatWasCut(at: index) }
      pending = pending.indices.filter { !forced.contains($0) }.map { pending[$0] }
    } else {
      pending += model.units(of: change)
    }
  }

  /// Drops pending data after the end of a file that was truncated, because the system no longer writes it.
  private mutating func dropWhatWasCut(at index: Int) {
    guard case .cut(let file, let byteCount) = pending[index] else { return }
    for earlier in 0..<index {
      guard case .data(file, let offset, let bytes, let extends) = pending[earlier] else { continue }
      let kept = bytes.prefix(max(byteCount - offset, 0))
      pending[earlier] = .data(file: file, offset: offset, bytes: Array(kept), extends: extends)
    }
  }

  /// Returns the states that a power cut at this point may leave.
  ///
  /// - Parameters:
  ///   - limit: The approximate maximum number of states.
  ///   - most: The number of states to build, chosen at random.
  package func states(
    limit: Int, most: Int = .max, using generator: inout some RandomNumberGenerator
  ) -> [DiskTree] {
    let survivors = model.survivors(of: pending, limit: limit, using: &generator)
    let chosen = survivors.count <= most ? survivors : Array(survivors.shuffled(using: &generator).prefix(most))
    return chosen.map { survivors in
      var image = durable
      for index in survivors.sorted() { image.apply(pending[index], dataExtends: model.dataExtends) }
      return image.tree
    }
  }
}
