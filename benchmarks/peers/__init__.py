"""One script a peer, run by the python of the peers' own environment; none of them imports osamd."""
