#!/bin/bash
set -e
cd /app
echo dark > out.txt
echo dance > key.txt
