package import BlobRecord
internal import Posix

/// Lookups that never wait for the disk, a lock that is held for long, or another process. They only return small data
/// that is already in memory, with all checks of an ordinary lookup. See Spec/Performance.md.
extension BlobStore {
  /// Loads a blob without waiting, and leaves advancing the update time to the caller: `LoadReceipt.owedTouch`. With
  /// `tellsAbsence`, a missing record is counted, and the answer is `known(nil)`; otherwise, it is `unknown`.
  package func loadIfCached(
    _ key: BlobKey, at path: RecordPath, touching: Bool, tellsAbsence: Bool = true, _ receipt: inout LoadReceipt
  ) -> CachedAnswer<Blob> {
    let now = core.configuration.now()
    guard let place = Records(core).placeIfOpen() else { return .unknown }
    let found = Records(core).readWithoutBlocking(WholeLookup(key: key, path: path, now: now), in: place)
    // If the file of uses is not open, an ordinary lookup opens it and counts the use.
    guard !touching || core.uses.areOpen(of: place.control) else { return .unknown }
    func count(_ load: CountedLoad) {
      core.uses.count(load, of: path.digest, isUse: touching, at: now, in: place.control, place.open)
    }
    switch found?.reading {
    case .absent where tellsAbsence:
      count(.miss)
      return .known(nil)
    case .live(let header, let content):
      count(.hit(byteCount: content.payload.count))
      receipt.generation = found?.generation
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

  /// Returns the header of a key's live record without waiting.
  package func headerIfCached(for key: BlobKey) -> CachedAnswer<RecordHeader> {
    // An ordinary lookup reports the invalid key.
    guard let path = try? core.path(for: key) else { return .unknown }
    return Records(core).headerIfCached(at: path)
  }
}

extension Records {
  fileprivate func headerIfCached(at path: RecordPath) -> CachedAnswer<RecordHeader> {
    let now = core.configuration.now()
    guard let place = placeIfOpen() else { return .unknown }
    let found = readWithoutBlocking(HeaderLookup(path: path, now: now), in: place)
    switch found?.reading {
    case .absent: return .known(nil)
    case .live(let header, _): return .known(header)
    case .damaged, nil: return .unknown
    }
  }

  fileprivate struct Place {
    let open: OpenRoot
    let control: ControlFile
  }

  /// The directory and its control file, if both are open. A mapped control file shows that the file system is local.
  /// On other file systems, each call may wait for a server.
  fileprivate func placeIfOpen() -> Place? {
    guard let open = core.root.openedLately(), open.cachedLookups.areWorthTrying(at: open.directory.moment),
      let control = open.openedControlFile, control.isMapped
    else { return nil }
    return Place(open: open, control: control)
  }

  /// Looks up a record once, and returns `nil` if the lookup would wait or the key's generation has changed.
  fileprivate func readWithoutBlocking<Lookup: RecordLookup>(
    _ lookup: Lookup, in place: Place
  ) -> (reading: Reading<Lookup.Content>, generation: UInt64?)? {
    let open = place.open
    let generation = place.control.generation(of: lookup.path.digest)
    do {
      let reading = try read(open.placed(lookup.path), in: open, lookup, .withoutBlocking)
      guard place.control.generation(of: lookup.path.digest) == generation else { return nil }
      return (reading, generation)
    } catch {
      // An ordinary lookup encounters other failures again, and reports them.
      if error as? CachedLookupFailure == .unsupported { open.cachedLookups.wereRefused(at: open.directory.moment) }
      return nil
    }
  }
}
