//! What calls do to objects: the words of the tables that `generated` has for each API.

/// What is done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It is there afterwards.
    Creates,
    /// It was there already, and has an id afterwards.
    Names,
    /// It is gone afterwards, and its children with it.
    Destroys,
    /// This of it is another.
    Changes(&'static str),
}

/// What names an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// A field of the request. Where it is 0, there is no object.
    Field(&'static str),
    /// A field of the reply.
    Reply(&'static str),
    /// The record's header: the object that the record is executed in.
    Scope,
}

/// One effect of a call on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect<K: 'static> {
    /// What is done.
    pub act: Act,
    /// The kind of the object.
    pub kind: K,
    /// Which object.
    pub at: At,
    /// Of a new object: its parents, and what it keeps alive.
    pub of: &'static [(K, At)],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::cuda::{self, Kind, effects, op};

    fn of(op: u16, act: Act) -> &'static [(Kind, At)] {
        let e = effects(op).iter().find(|e| e.act == act);
        e.map_or(&[], |e| e.of)
    }

    #[test]
    fn a_parent_is_the_argument_that_the_object_dies_with_or_the_current_context() {
        let context = [(Kind::Context, At::Scope)];
        assert_eq!(of(op::CU_STREAM_CREATE, Act::Creates), context);
        assert_eq!(of(op::CU_ARRAY_CREATE_V2, Act::Creates), context);
        let whole = [(Kind::MipmappedArray, At::Field("h_mipmapped_array"))];
        assert_eq!(of(op::CU_MIPMAPPED_ARRAY_GET_LEVEL, Act::Creates), whole);
        let both = [
            (Kind::Library, At::Field("library")),
            (Kind::Context, At::Scope),
        ];
        assert_eq!(of(op::LIBRARY_MODULE, Act::Creates), both);
        let kept = [(Kind::Allocation, At::Field("allocation"))];
        assert_eq!(of(op::VMM_MAP, Act::Creates), kept);
        let node = [(Kind::GraphNode, At::Field("node"))];
        assert_eq!(of(op::GRAPH_ADD_NODE, Act::Names), node);
        assert_eq!(of(op::GRAPH_INSTANTIATE, Act::Creates), []);
        assert_eq!(effects(op::LAUNCH_KERNEL), []);
    }

    #[test]
    fn a_parent_is_of_a_kind_that_the_object_dies_with_or_keeps() {
        for (op, name) in cuda::NAMES {
            for e in effects(*op) {
                for (kind, _) in e.of {
                    let parents = e.kind.parents();
                    let fits = parents.contains(kind) || e.kind.keeps().contains(kind);
                    assert!(fits, "{name}: a {:?} of a {kind:?}", e.kind);
                }
            }
        }
    }
}
