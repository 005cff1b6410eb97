//! Rings in a graph of numbered nodes.

/// Returns every group of nodes that reach one another, as numbers in rising order; a node alone counts if it has an edge to itself. Tarjan's
/// algorithm, without recursion.
pub fn cycles(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut search = Search { index: vec![0; edges.len()], low: vec![0; edges.len()], ..Search::default() };
    for start in 0..edges.len() {
        if search.index[start] == 0 {
            search.from(start, edges);
        }
    }
    let is_ring = |group: &Vec<usize>| group.len() > 1 || edges[group[0]].contains(&group[0]);
    let mut found: Vec<_> = search.groups.into_iter().filter(is_ring).collect();
    found.iter_mut().for_each(|group| group.sort_unstable());
    found.sort();
    found
}

#[derive(Default)]
struct Search {
    /// When a node was first seen, 0 for never; `usize::MAX` once its group is known.
    index: Vec<usize>,
    low: Vec<usize>,
    clock: usize,
    open: Vec<usize>,
    groups: Vec<Vec<usize>>,
}

impl Search {
    fn from(&mut self, start: usize, edges: &[Vec<usize>]) {
        let mut path = vec![(start, 0)];
        self.enter(start);
        while let Some((node, next)) = path.pop() {
            let Some(&to) = edges[node].get(next) else {
                self.leave(node);
                if let Some((above, _)) = path.last() {
                    self.low[*above] = self.low[*above].min(self.low[node]);
                }
                continue;
            };
            path.push((node, next + 1));
            match self.index[to] {
                0 => {
                    self.enter(to);
                    path.push((to, 0));
                }
                usize::MAX => {}
                seen => self.low[node] = self.low[node].min(seen),
            }
        }
    }

    fn enter(&mut self, node: usize) {
        self.clock += 1;
        self.index[node] = self.clock;
        self.low[node] = self.clock;
        self.open.push(node);
    }

    /// All that a node leads to is known. If nothing leads above it, it and the nodes opened since are a group.
    fn leave(&mut self, node: usize) {
        if self.low[node] != self.index[node] {
            return;
        }
        let first = self.open.iter().rposition(|open| *open == node).unwrap_or(0);
        let group = self.open.split_off(first);
        for member in &group {
            self.index[*member] = usize::MAX;
            self.low[*member] = usize::MAX;
        }
        self.groups.push(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_found_and_paths_are_not() {
        assert_eq!(cycles(&[vec![1], vec![2], vec![]]), Vec::<Vec<usize>>::new());
        assert_eq!(cycles(&[vec![1, 2], vec![0], vec![2], vec![1]]), [vec![0, 1], vec![2]]);
        let long: Vec<Vec<usize>> = (0..100_000).map(|node| vec![(node + 1) % 100_000]).collect();
        assert_eq!(cycles(&long)[0].len(), 100_000);
    }
}
