//! Many ports in few columns, none left out.

/// `22`, `8000-8063`: ascending, each with how many ports it stands for.
pub(super) fn ranges(ports: &[u16]) -> Vec<(String, usize)> {
    let mut ports = ports.to_vec();
    ports.sort_unstable();
    ports.dedup();
    ports
        .chunk_by(|one, next| one.checked_add(1) == Some(*next))
        .filter_map(|run| match (run.first()?, run.last()?) {
            (first, last) if first == last => Some((first.to_string(), 1)),
            (first, last) => Some((format!("{first}-{last}"), run.len())),
        })
        .collect()
}

/// The ranges joined, in as many pieces as need be to keep each within so many columns.
pub(super) fn pieces(ports: &[u16], columns: usize) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for (range, _) in ranges(ports) {
        match pieces.last_mut() {
            Some(piece) if piece.len() + 1 + range.len() <= columns => {
                piece.push(',');
                piece.push_str(&range);
            }
            _ => pieces.push(range),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_become_a_range() {
        let ranges = |ports: &[u16]| ranges(ports).into_iter().map(|(text, _)| text).collect::<Vec<_>>();
        assert_eq!(ranges(&[8001, 22, 8000, 8002, 8000, 443]), ["22", "443", "8000-8002"]);
        assert_eq!(ranges(&[65534, 65535, 0]), ["0", "65534-65535"]);
        assert!(ranges(&[]).is_empty());
    }

    #[test]
    fn pieces_name_every_port() {
        assert_eq!(pieces(&[1, 2, 3, 10, 20, 30], 8), ["1-3,10", "20,30"]);
        assert_eq!(pieces(&[10000], 3), ["10000"]);
    }
}
