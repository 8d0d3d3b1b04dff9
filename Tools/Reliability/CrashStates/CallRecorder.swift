package import Posix
internal import Synchronization
internal import SystemPackage

/// Records the changes that a store's calls make to a directory, by reading it between calls of one thread.
package final class CallRecorder: Sendable {
  private struct State {
    var reader: DiskReader
    var recording: Recording
    /// A Boolean value that indicates whether a call since the last read may have changed something.
    var mayHaveChanged = false
  }

  private let state: Mutex<State>
  private let top: String
  private let seesMemory: Bool

  /// - Parameters:
  ///   - top: The absolute path of a directory, without symbolic links. Its current content is on the medium.
  ///   - seesMemory: A Boolean value that indicates whether steps in shared memory and the control file are recorded.
  package init(top: String, seesMemory: Bool = false) {
    var reader = DiskReader(top: top, readsControlFile: seesMemory)
    _ = reader.read()
    self.top = top
    self.seesMemory = seesMemory
    state = Mutex(State(reader: reader, recording: Recording(base: reader.image)))
  }

  /// The interface to the file system for the store under test.
  package var files: Files {
    Files { [self] call, location in
      noteCall(call, location)
      return nil
    }
  }

  /// Records the start of operation `number`.
  package func begin(_ number: Int) { note(.began(number)) }

  /// Records the answer of operation `number`.
  package func end(_ number: Int) { note(.ended(number)) }

  package var recording: Recording { state.withLock { $0.recording } }

  private func note(_ event: Recording.Event) {
    state.withLock { state in
      if seesMemory { state.mayHaveChanged = true }
      look(&state)
      state.recording.events.append(event)
    }
  }

  private func noteCall(_ call: SystemCall, _ location: Location) {
    state.withLock { state in
      look(&state)
      switch call {
      case .sync:
        let path = location.path.string
        guard path.utf8.starts(with: top.utf8) else { return }
        let relative = String(path.dropFirst(top.count).drop { $0 == "/" })
        guard let number = state.reader.paths[relative] ?? state.reader.formerPaths[relative] else { return }
        let isDirectory = state.reader.image.directories[number] != nil
        state.recording.events.append(.change(.sync(number, isDirectory: isDirectory)))
      case .open, .openUnnamed, .write, .truncate, .rename, .renameNoReplace, .renameExchange, .link, .linkUnnamed,
        .unlink, .makeDirectory, .removeDirectory, .allocate, .allocateRange, .reserve, .punchHole:
        state.mayHaveChanged = true
      // Acquired and released stripes are recorded with the next change, because a wipe acquires a thousand of them.
      case .announce, .exchangeEntry, .markDead, .growIndex, .map:
        if seesMemory { state.mayHaveChanged = true }
      default: break
      }
    }
  }

  private func look(_ state: inout State) {
    guard state.mayHaveChanged else { return }
    state.mayHaveChanged = false
    state.recording.events += state.reader.read().map { .change($0) }
  }
}
