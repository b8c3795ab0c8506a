import timeit, torch, ag_visual as ag
from ag_visual.bridge import walk
from ag_visual.bridge.node import *
from ag_visual.bridge.node import TorchNode
from ag_visual.bridge.saved import *
from ag_visual.bridge.saved import Trusted, read_unpacked, Last
w=ag.watch(torch); W=w._watcher
x,y=torch.ones(4,requires_grad=True),torch.ones(4)
z=x*y*y; f=z.grad_fn; W._pending(); b=W._births[f._sequence_nr()]
last=Last(); n=TorchNode(); md=f.metadata
def T(name,stmt):
    k=200000; print(f'{name:20s} {min(timeit.repeat(stmt,number=k,repeat=5,globals=globals()))/k*1e6:.3f}')
kind=kinds[type(f)]; n.know(f,md,b,last)
T('TorchNode()','TorchNode()'); T('know','n.know(f,md,b,last)'); T('read_unpacked','read_unpacked(f,kind,last)')
T('getattr','getattr(f,"_saved_other")');T('getattr self','getattr(f,"_saved_self")'); T('shape cmp','b[6]!=kind.shape'); T('Trusted','Trusted.number')
print(kind.tensors)
w.stop()
