package import BlobRecord
internal import Posix

/// Looks that never wait: for the disk, a lock that is held for long, or another process.
///
/// They answer what is in memory, small, and beyond doubt, with each check that the ordinary look makes. Spec/Performance.md
/// says of each of their system calls why it does not wait.
extension BlobStore {
  /// A load that never waits.
  ///
  /// A move of the update time is left to the caller: `LoadReceipt.owedTouch`.
  ///
  /// - Parameter tellsAbsence: whether a missing record is an answer, and counted; else it is unknown.
  package func loadIfCached(
    _ key: BlobKey, at path: RecordPath, touching: Bool, tellsAbsence: Bool = true, _ receipt: inout LoadReceipt
  ) -> CachedAnswer<Blob> {
    let now = core.configuration.now()
    guard let place = core.placeIfOpen() else { return .unknown }
    let look = core.readWithoutBlocking(WholeLookup(key: key, path: path, now: now), in: place)
    // A new file of uses is opened by the ordinary look, which counts a use in it.
    guard !touching || core.uses.areOpen(of: place.control) else { return .unknown }
    func count(_ load: CountedLoad) {
      core.count(load, of: path.digest, isUse: touching, at: now, in: place.control, place.open)
    }
    switch look?.reading {
    case .absent where tellsAbsence:
      count(.miss)
      return .known(nil)
    case .live(let header, let content):
      count(.hit(byteCount: content.payload.count))
      receipt.generation = look?.generation
      let isDue = touching && header.ttl == 0 && header.lastUpdate < now
      if isDue, let use = content.use {
        use.note(at: now)
        receipt.update = now
      } else {
        receipt.owedTouch = isDue ? now : nil
      }
      return .known(Blob(key: key, payload: content.payload, header: header, extendedData: content.extendedData))
    case .absent, .damaged, nil: return .unknown
    }
  }

  /// The header of a key's record, if it is live; never waits.
  package func headerIfCached(for key: BlobKey) -> CachedAnswer<RecordHeader> {
    // The ordinary look reports an invalid key.
    guard let path = try? core.path(for: key) else { return .unknown }
    return core.headerIfCached(at: path)
  }
}

extension StoreCore {
  fileprivate func headerIfCached(at path: RecordPath) -> CachedAnswer<RecordHeader> {
    let now = configuration.now()
    guard let place = placeIfOpen() else { return .unknown }
    let look = readWithoutBlocking(HeaderLookup(path: path, now: now), in: place)
    switch look?.reading {
    case .absent: return .known(nil)
    case .live(let header, _): return .known(header)
    case .damaged, nil: return .unknown
    }
  }

  /// Where looks that never wait can look.
  fileprivate struct Place {
    let open: OpenRoot
    let control: ControlFile
  }

  /// The directory and its control file, if both are open.
  ///
  /// A control file that is mapped shows that the file system is a local one: on others, each call may wait for a server.
  fileprivate func placeIfOpen() -> Place? {
    guard let open = root.openedLately(), open.cachedLooks.areWorthTrying(at: open.directory.moment),
      let control = open.openedControlFile, control.isMapped
    else { return nil }
    return Place(open: open, control: control)
  }

  /// Looks once, and answers if the key's generation has stayed, as `readAtStableGeneration` does.
  ///
  /// - Returns: nil if the look would wait, or has to be made again.
  fileprivate func readWithoutBlocking<Lookup: RecordLookup>(
    _ lookup: Lookup, in place: Place
  ) -> (reading: Reading<Lookup.Content>, generation: UInt64?)? {
    let open = place.open
    let generation = place.control.generation(of: lookup.path.digest)
    do {
      let reading = try records.read(open.placed(lookup.path), in: open, lookup, .withoutBlocking)
      guard place.control.generation(of: lookup.path.digest) == generation else { return nil }
      return (reading, generation)
    } catch {
      // Other failures are met again by the ordinary look, which reports them.
      if error as? CachedLookFailure == .unsupported { open.cachedLooks.wereRefused(at: open.directory.moment) }
      return nil
    }
  }
}
