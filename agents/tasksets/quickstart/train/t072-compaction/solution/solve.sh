#!/bin/bash
set -e
cd /app
echo dark > draft.txt
echo arrow > list.txt
echo strong > value.txt
