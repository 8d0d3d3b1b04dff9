/// The record has taken its place. But it may not be on the medium, or could not be taken back.
///
/// It must not be stored again: others may have locked the record meanwhile.
struct Published: Error {
  let cause: any Error
}
